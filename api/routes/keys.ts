// A company's API keys. A token is in the answer that creates the key and in no other.

import { InvalidInput, NotFound } from '../../prisma/store/db/errors';
import {
  createKey,
  keyResource,
  listKeys,
  revokeKey,
  rotateKey,
  type KeyToCreate,
} from '../../prisma/store/access/keys';
import { created, noContent, ok, readRoute, writeRoute, type Route } from '../route';
import { newKey, pageOf, rotatedKey, shownKey } from '../schemas/answers';
import { keyBody, keyRotationBody } from '../schemas/bodies';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

export const keyRoutes: readonly Route[] = [
  writeRoute({
    method: 'post',
    path: '/v1/keys',
    role: 'admin',
    summary: 'Create a key',
    success: created(newKey),
    body: keyBody,
    audit: ({ body }, key) => ({ action: 'key.created', subject: key.id, details: { kind: body.kind } }),
    async handle(tx, { caller, body }) {
      const { companyId } = caller;
      const wanted: KeyToCreate =
        body.kind === 'agent'
          ? { kind: body.kind, name: body.name, agentId: body.agent, companyId }
          : { ...body, companyId };
      const { key, token } = await createKey(tx, wanted).catch((error: unknown) => {
        throw error instanceof NotFound ? new InvalidInput(error.message, '/agent') : error;
      });
      return { status: 201, body: { ...keyResource(key), token } };
    },
  }),
  readRoute({
    path: '/v1/keys',
    role: 'admin',
    summary: "List the company's keys, including revoked ones",
    success: ok(pageOf(shownKey)),
    query: listQuery('key'),
    async handle(db, { caller, query }) {
      return { status: 200, body: listBody(await listKeys(db, caller.companyId, pageRequest(query)), keyResource) };
    },
  }),
  writeRoute({
    method: 'post',
    path: '/v1/keys/:key/rotate',
    role: 'admin',
    summary: 'Replace a key with a new one of the same holder',
    success: created(rotatedKey),
    body: keyRotationBody,
    audit: ({ ids, body }, key) => ({
      action: 'key.rotated',
      subject: ids.key,
      details: { successor: key.id, overlap_seconds: body.overlap_seconds },
    }),
    async handle(tx, { caller, ids, body }) {
      const { key, token, replaced } = await rotateKey(tx, caller.companyId, ids.key, body.overlap_seconds);
      return { status: 201, body: { ...keyResource(key), token, replaces: keyResource(replaced) } };
    },
  }),
  writeRoute({
    method: 'delete',
    path: '/v1/keys/:key',
    role: 'admin',
    summary: 'Revoke a key permanently',
    success: noContent,
    audit: ({ ids }) => ({ action: 'key.revoked', subject: ids.key }),
    async handle(tx, { caller, ids }) {
      return { status: 204, repeated: !(await revokeKey(tx, caller.companyId, ids.key)) };
    },
  }),
];
