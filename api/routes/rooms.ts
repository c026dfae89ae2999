// Rooms, and the companies in them.

import {
  createInvitation,
  invitationResource,
  listInvitations,
  redeemInvitation,
  revokeInvitation,
} from '../../prisma/store/rooms/invitations';
import { closeRoom, leaveRoom } from '../../prisma/store/lifecycle/departure';
import {
  createRoom,
  listMembers,
  listRooms,
  memberResource,
  roomResource,
  updateRoom,
  viewRoom,
} from '../../prisma/store/rooms/rooms';
import { authorOf, viewerOf } from '../callers';
import { created, noContent, ok, readRoute, writeRoute, type Route } from '../route';
import { newInvitation, pageOf, shownInvitation, shownMember, shownRoom } from '../schemas/answers';
import { redemptionBody, roomBody, roomPatch } from '../schemas/bodies';
import { slugOr } from '../schemas/fields';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

export const roomRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/rooms',
    who: 'admin',
    summary: 'Open a room',
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
    who: 'company',
    summary: 'The rooms that the caller is in',
    success: ok(pageOf(shownRoom)),
    query: listQuery('room'),
    async handle(db, { caller, query }) {
      return { status: 200, body: listBody(await listRooms(db, viewerOf(caller), pageRequest(query)), roomResource) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room',
    who: 'company',
    summary: 'A room',
    success: ok(shownRoom),
    async handle(db, { caller, ids }) {
      const { room } = await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: roomResource(room) };
    },
  }),
  writeRoute({
    method: 'patch',
    path: '/v1/rooms/:room',
    who: 'admin',
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
    path: '/v1/rooms/:room/invitations',
    who: 'admin',
    summary: 'Make a code by which a guest comes in, valid for 7 days',
    success: created(newInvitation),
    audit: ({ ids }, invitation) => ({ action: 'invitation.created', subject: invitation.id, room: ids.room }),
    async handle(tx, { caller, ids }) {
      const { id, code, expiresAt } = await createInvitation(tx, ids.room, caller.companyId);
      return { status: 201, body: { id, room: ids.room, code, expires_at: expiresAt.toISOString() } };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/invitations',
    who: 'admin',
    summary: 'The invitations to a room, for its host; never their codes',
    success: ok(pageOf(shownInvitation)),
    query: listQuery('inv'),
    async handle(db, { caller, ids, query }) {
      const invitations = await listInvitations(db, viewerOf(caller), ids.room, pageRequest(query));
      return { status: 200, body: listBody(invitations, invitationResource) };
    },
  }),
  writeRoute({
    method: 'delete',
    path: '/v1/rooms/:room/invitations/:invitation',
    who: 'admin',
    summary: 'Revoke an invitation for good',
    success: noContent,
    // The audit's list of actions is closed in the database too, and a code taken back is a change of who may come in.
    audit: ({ ids }) => ({
      action: 'room.changed',
      subject: ids.invitation,
      room: ids.room,
      details: { invitation: 'revoked' },
    }),
    async handle(tx, { caller, ids }) {
      const revoked = await revokeInvitation(tx, ids.room, caller.companyId, ids.invitation);
      return { status: 204, repeated: !revoked };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/members',
    who: 'admin',
    summary: 'Redeem an invitation',
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
    who: 'admin',
    summary: 'Leave a room, or as its host show a company out',
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
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/close',
    who: 'admin',
    summary: 'Close a room for good',
    success: ok(shownRoom),
    audit: ({ ids }) => ({ action: 'room.closed', subject: ids.room, room: ids.room }),
    async handle(tx, { caller, ids }) {
      await closeRoom(tx, ids.room, authorOf(caller));
      const { room } = await viewRoom(tx, viewerOf(caller), ids.room);
      return { status: 200, body: roomResource(room) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/members',
    who: 'company',
    summary: 'The companies in a room',
    success: ok(pageOf(shownMember)),
    query: listQuery('co'),
    async handle(db, { caller, ids, query }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: listBody(await listMembers(db, ids.room, pageRequest(query)), memberResource) };
    },
  }),
];
