// The member companies of a room: list them, join by invitation, leave.

import { leaveRoom } from '../../prisma/store/lifecycle/departure';
import { redeemInvitation } from '../../prisma/store/rooms/invitations';
import { listMembers, memberResource, viewRoom } from '../../prisma/store/rooms/rooms';
import { authorOf, viewerOf } from '../middleware/caller';
import { created, noContent, ok, readRoute, writeRoute, type Route } from '../route';
import { pageOf, shownMember } from '../schemas/answers';
import { redemptionBody } from '../schemas/bodies';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

export const memberRoutes: readonly Route[] = [
  readRoute({
    path: '/v1/rooms/:room/members',
    role: 'company',
    summary: 'List the companies in a room',
    success: ok(pageOf(shownMember)),
    query: listQuery('co'),
    async handle(db, { caller, ids, query }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: listBody(await listMembers(db, ids.room, pageRequest(query)), memberResource) };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/members',
    role: 'admin',
    summary: 'Join a room with an invitation',
    success: created(shownMember),
    problems: ['gone'],
    body: redemptionBody,
    audit: ({ ids, caller }) => ({ action: 'member.joined', subject: caller.companyId, room: ids.room }),
    async handle(tx, { caller, ids, body }) {
      return { status: 201, body: memberResource(await redeemInvitation(tx, ids.room, authorOf(caller), body.code)) };
    },
  }),
  writeRoute({
    method: 'delete',
    path: '/v1/rooms/:room/members/:company',
    role: 'admin',
    summary: 'Leave a room, or remove a company as the host',
    success: noContent,
    audit: ({ ids, caller }) => ({
      action: 'member.left',
      subject: ids.company,
      room: ids.room,
      companies: [caller.companyId, ids.company],
    }),
    async handle(tx, { caller, ids }) {
      await leaveRoom(tx, ids.room, authorOf(caller), ids.company);
      return { status: 204 };
    },
  }),
];
