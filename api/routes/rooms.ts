// Rooms: create, read, change, pause, resume and close.

import { closeRoom } from '../../prisma/store/lifecycle/departure';
import { pauseRoom, resumeRoom } from '../../prisma/store/lifecycle/room-pause';
import { createRoom, listRooms, roomResource, updateRoom, viewRoom } from '../../prisma/store/rooms/rooms';
import { authorOf, viewerOf } from '../middleware/caller';
import { created, ok, readRoute, writeRoute, type Route } from '../route';
import { pageOf, shownRoom } from '../schemas/answers';
import { roomBody, roomPatch } from '../schemas/bodies';
import { slugOr } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';
import { pausedRoom } from '../schemas/room-answers';

export const roomRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/rooms',
    role: 'admin',
    summary: 'Create a room',
    success: created(shownRoom),
    body: roomBody,
    audit: (_, room) => ({ action: 'room.created', subject: room.id, room: room.id }),
    async handle(tx, { caller, body }) {
      const room = await createRoom(tx, authorOf(caller), {
        slug: slugOr(body.slug, body.name),
        name: body.name,
        onCrash: body.on_crash,
        hopLimit: body.hop_limit,
        runAllowance: body.run_allowance,
      });
      return { status: 201, body: roomResource(room) };
    },
  }),
  readRoute({
    path: '/v1/rooms',
    role: 'company',
    summary: 'List the rooms that the caller is in',
    success: ok(pageOf(shownRoom)),
    query: listQuery('room'),
    async handle(db, { caller, query }) {
      return { status: 200, body: listBody(await listRooms(db, viewerOf(caller), pageRequest(query)), roomResource) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room',
    role: 'company',
    summary: 'Get a room',
    success: ok(shownRoom),
    async handle(db, { caller, ids }) {
      const { room } = await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: roomResource(room) };
    },
  }),
  writeRoute({
    method: 'patch',
    path: '/v1/rooms/:room',
    role: 'admin',
    summary: 'Change a room, as its host',
    success: ok(shownRoom),
    body: roomPatch,
    audit: ({ ids, body }) => ({ action: 'room.changed', subject: ids.room, room: ids.room, details: body }),
    async handle(tx, { caller, ids, body }) {
      const room = await updateRoom(tx, ids.room, caller.companyId, {
        name: body.name,
        onCrash: body.on_crash,
        hopLimit: body.hop_limit,
        runAllowance: body.run_allowance,
      });
      return { status: 200, body: roomResource(room) };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/pause',
    role: 'person',
    summary: 'Pause a room: no run begins. The answer lists the runs in flight',
    success: ok(pausedRoom),
    audit: ({ ids }) => ({ action: 'room.paused', subject: ids.room, room: ids.room }),
    async handle(tx, { caller, ids }) {
      const { room, inFlight, changed } = await pauseRoom(tx, ids.room, authorOf(caller));
      return { status: 200, body: { ...roomResource(room), in_flight: inFlight }, repeated: !changed };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/resume',
    role: 'person',
    summary: 'Resume a room: runs begin again',
    success: ok(shownRoom),
    audit: ({ ids }) => ({ action: 'room.resumed', subject: ids.room, room: ids.room }),
    async handle(tx, { caller, ids }) {
      const { room, changed } = await resumeRoom(tx, ids.room, authorOf(caller));
      return { status: 200, body: roomResource(room), repeated: !changed };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/close',
    role: 'admin',
    summary: 'Close a room permanently',
    success: ok(shownRoom),
    audit: ({ ids }) => ({ action: 'room.closed', subject: ids.room, room: ids.room }),
    async handle(tx, { caller, ids }) {
      await closeRoom(tx, ids.room, authorOf(caller));
      const { room } = await viewRoom(tx, viewerOf(caller), ids.room);
      return { status: 200, body: roomResource(room) };
    },
  }),
];
