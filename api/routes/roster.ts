// The roster of a room: its agents and their rights.

import { removeFromRoster } from '../../prisma/store/lifecycle/departure';
import {
  addRosterEntry,
  listRosterEntries,
  rosterResource,
  updateRosterEntry,
} from '../../prisma/store/rooms/roster-entries';
import { PRESETS } from '../../prisma/store/rooms/roster';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import type { Rights } from '../../workflows/contract';
import { authorOf, viewerOf } from '../middleware/caller';
import { created, ok, readRoute, writeRoute, type Route } from '../route';
import { ownRosterEntry, pageOf, removedFromRoster, shownRosterEntry } from '../schemas/answers';
import { rosterBody, rosterPatch } from '../schemas/bodies';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

export const rosterRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/roster',
    role: 'admin',
    summary: 'Add an agent to the roster',
    success: created(ownRosterEntry),
    body: rosterBody,
    audit: ({ ids, body }, entry) => ({
      action: 'roster.added',
      subject: body.agent,
      room: ids.room,
      details: { rights: entry.rights },
    }),
    async handle(tx, { caller, ids, body }) {
      const rights = body.rights ?? PRESETS[body.preset ?? 'careful'];
      const entry = await addRosterEntry(tx, ids.room, authorOf(caller), body.agent, rights);
      return { status: 201, body: rosterResource(entry, 'company') };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/roster',
    role: 'company',
    summary: 'List the agents of a room',
    success: ok(pageOf(shownRosterEntry)),
    query: listQuery('agent'),
    async handle(db, { caller, ids, query }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      const entries = await listRosterEntries(db, ids.room, pageRequest(query));
      const body = listBody(entries, (entry) =>
        rosterResource(entry, entry.agent.companyId === caller.companyId ? 'company' : 'everyone'),
      );
      return { status: 200, body };
    },
  }),
  writeRoute({
    method: 'patch',
    path: '/v1/rooms/:room/roster/:agent',
    role: 'admin',
    summary: 'Change the rights of an agent in a room',
    success: ok(ownRosterEntry),
    body: rosterPatch,
    audit: ({ ids }, { rights, private_memory }) => ({
      action: 'roster.changed',
      subject: ids.agent,
      room: ids.room,
      details: { rights, private_memory },
    }),
    async handle(tx, { caller, ids, body }) {
      const rights: Partial<Rights> = body.preset === undefined ? definedOf(body.rights ?? {}) : PRESETS[body.preset];
      const change = { rights, privateMemory: body.private_memory };
      const entry = await updateRosterEntry(tx, ids.room, caller.companyId, ids.agent, change);
      return { status: 200, body: rosterResource(entry, 'company') };
    },
  }),
  writeRoute({
    method: 'delete',
    path: '/v1/rooms/:room/roster/:agent',
    role: 'admin',
    summary: 'Remove an agent from the roster',
    success: ok(removedFromRoster),
    audit: ({ ids, caller }, { company }) => ({
      action: 'roster.removed',
      subject: ids.agent,
      room: ids.room,
      companies: [caller.companyId, String(company)],
    }),
    async handle(tx, { caller, ids }) {
      const company = await removeFromRoster(tx, ids.room, authorOf(caller), ids.agent);
      return { status: 200, body: { room: ids.room, agent: ids.agent, company } };
    },
  }),
];

function definedOf<T extends object>(given: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
