// Invitations to a room. The code is in the answer that creates it and in no other.

import {
  createInvitation,
  invitationResource,
  listInvitations,
  revokeInvitation,
} from '../../prisma/store/rooms/invitations';
import { viewerOf } from '../middleware/caller';
import { created, noContent, ok, readRoute, writeRoute, type Route } from '../route';
import { newInvitation, pageOf, shownInvitation } from '../schemas/answers';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

export const invitationRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/rooms/:room/invitations',
    role: 'admin',
    summary: 'Create an invitation, whose code lets a company join within 7 days',
    success: created(newInvitation),
    audit: ({ ids }, invitation) => ({ action: 'invitation.created', subject: invitation.id, room: ids.room }),
    async handle(tx, { caller, ids }) {
      const { id, code, expiresAt } = await createInvitation(tx, ids.room, caller.companyId);
      return { status: 201, body: { id, room: ids.room, code, expires_at: expiresAt.toISOString() } };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/invitations',
    role: 'admin',
    summary: 'List the invitations to a room, as its host; without their codes',
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
    role: 'admin',
    summary: 'Revoke an invitation permanently',
    success: noContent,
    // The audit's actions are a closed set in the database too. It has no action for a revoked invitation.
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
];
