// A company's keys for model providers. No answer contains the secret.

import { refuseOwnerAddress } from '../../workflows/policy/model-address';
import {
  cleanModelKey,
  normalizeBaseUrl,
  protocolOfProvider,
  type ModelProtocol,
} from '../../workflows/policy/model-endpoint';
import { InvalidInput } from '../../prisma/store/db/errors';
import { newId } from '../../prisma/store/db/ids';
import { keyTestResource, requestKeyTest } from '../../prisma/store/model-keys/key-tests';
import {
  createModelKey,
  listModelKeys,
  loadModelKey,
  modelKeyBinding,
  modelKeyResource,
  revokeModelKey,
  updateModelKey,
} from '../../prisma/store/model-keys/model-keys';
import { accepted, created, noContent, ok, readRoute, writeRoute, type ApiDeps, type Route } from '../route';
import { pageOf, shownKeyTest, shownModelKey } from '../schemas/answers';
import { modelKeyBody, modelKeyPatch, modelKeyTestBody } from '../schemas/bodies';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

interface ModelAddress {
  readonly baseUrl: string;
  readonly protocol: ModelProtocol;
  readonly ownerSupplied: boolean;
}

export function modelKeyRoutes({ secretBox, providers, allowedModelHosts }: ApiDeps): readonly Route[] {
  const resourceOf = (key: Parameters<typeof modelKeyResource>[0]): Record<string, unknown> => {
    const named = [...providers].find(([, url]) => url === key.baseUrl)?.[0] ?? key.provider;
    return modelKeyResource(key, key.ownerSupplied ? null : named);
  };

  const addressOf = (body: {
    provider?: string | undefined;
    base_url?: string | undefined;
    protocol?: ModelProtocol | undefined;
  }): ModelAddress => {
    if (body.base_url !== undefined) {
      const { protocol = 'openai_compatible' } = body;
      const normalized = normalizeBaseUrl(body.base_url, protocol);
      if (!normalized.ok) throw new InvalidInput(normalized.reason, '/base_url');
      const refusal = refuseOwnerAddress(normalized.url, allowedModelHosts);
      if (refusal !== null) throw new InvalidInput(refusal, '/base_url');
      return { baseUrl: normalized.url, protocol, ownerSupplied: true };
    }
    const { provider = '' } = body;
    const baseUrl = providers.get(provider);
    if (baseUrl === undefined) {
      throw new InvalidInput(`the provider must be one of ${[...providers.keys()].join(', ')}`, '/provider');
    }
    return { baseUrl, protocol: protocolOfProvider(provider), ownerSupplied: false };
  };

  return [
    writeRoute({
      method: 'post',
      path: '/v1/model-keys',
      role: 'admin',
      summary: 'Store a key for a model provider',
      success: created(shownModelKey),
      body: modelKeyBody,
      audit: (_, key) => ({ action: 'model_key.created', subject: key.id }),
      async handle(tx, { caller, body }) {
        const { baseUrl, protocol, ownerSupplied } = addressOf(body);
        const id = newId('mk');
        const key = await createModelKey(tx, {
          id,
          companyId: caller.companyId,
          name: body.name,
          provider: protocol,
          baseUrl,
          ownerSupplied,
          sealedSecret: secretBox.seal(readSecret(body.key), modelKeyBinding(id, baseUrl)),
        });
        return { status: 201, body: resourceOf(key) };
      },
    }),
    readRoute({
      path: '/v1/model-keys',
      role: 'admin',
      summary: "List the company's model keys",
      success: ok(pageOf(shownModelKey)),
      query: listQuery('mk'),
      async handle(db, { caller, query }) {
        return {
          status: 200,
          body: listBody(await listModelKeys(db, caller.companyId, pageRequest(query)), resourceOf),
        };
      },
    }),
    readRoute({
      path: '/v1/model-keys/:model_key',
      role: 'admin',
      summary: 'Get a model key',
      success: ok(shownModelKey),
      async handle(db, { caller, ids }) {
        return { status: 200, body: resourceOf(await loadModelKey(db, caller.companyId, ids.model_key)) };
      },
    }),
    writeRoute({
      method: 'patch',
      path: '/v1/model-keys/:model_key',
      role: 'admin',
      summary: 'Rename a model key, or replace its secret',
      success: ok(shownModelKey),
      body: modelKeyPatch,
      audit: ({ ids, body }) => ({
        action: 'model_key.changed',
        subject: ids.model_key,
        details: { fields: Object.keys(body) },
      }),
      async handle(tx, { caller, ids, body }) {
        // The address never changes, so it can be read before the key is locked. The secret is bound to it.
        const { id, baseUrl } = await loadModelKey(tx, caller.companyId, ids.model_key);
        const sealedSecret =
          body.key === undefined ? undefined : secretBox.seal(readSecret(body.key), modelKeyBinding(id, baseUrl));
        const key = await updateModelKey(tx, caller.companyId, id, { name: body.name, sealedSecret });
        return { status: 200, body: resourceOf(key) };
      },
    }),
    writeRoute({
      method: 'post',
      path: '/v1/model-keys/:model_key/test',
      role: 'admin',
      summary: 'Ask a worker to test a model key',
      success: accepted(shownKeyTest),
      body: modelKeyTestBody,
      audit: ({ ids }) => ({ action: 'model_key.tested', subject: ids.model_key }),
      async handle(tx, { caller, ids, body }) {
        const test = await requestKeyTest(tx, caller.companyId, ids.model_key, body?.model);
        return { status: 202, body: keyTestResource(test) };
      },
    }),
    writeRoute({
      method: 'delete',
      path: '/v1/model-keys/:model_key',
      role: 'admin',
      summary: 'Revoke a model key permanently',
      success: noContent,
      audit: ({ ids }) => ({ action: 'model_key.revoked', subject: ids.model_key }),
      async handle(tx, { caller, ids }) {
        return { status: 204, repeated: !(await revokeModelKey(tx, caller.companyId, ids.model_key)) };
      },
    }),
  ];
}

function readSecret(given: string): string {
  const cleaned = cleanModelKey(given);
  if (!cleaned.ok) throw new InvalidInput(cleaned.reason, '/key');
  return cleaned.key;
}
