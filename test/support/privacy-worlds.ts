// Creates two worlds that differ only in the private data of one company, and reads everything that the other company can
// read. If both results are equal, nothing private is visible: no text, no count, no order, no reason.

import { allRoutes } from '../../api/app';
import { claimMessage } from '../../prisma/store/runs/claims';
import { claimRequest, endRequest } from '../../prisma/store/runs/model-requests';
import { closeRun } from '../../prisma/store/runs/fence';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { renderContext } from '../../activities/context/render';
import { expectStatus, setUpRoom, type ApiAnswer, type ApiClient, type Json, type TestApi, type TestRoom } from './api';
import { answered, LIMITS, newExecution, NO_FACTS } from './store-runs';

/** The index of one of the two worlds. */
export type Side = 0 | 1;

/** One action in both worlds. Its secret data differs between the worlds and is private to Larkspur. */
export type RoomAction =
  | { readonly what: 'say'; readonly to: 'scribe' | 'scout' | 'none' }
  | { readonly what: 'remember'; readonly visibility: 'shared' | 'private' }
  | { readonly what: 'send_task'; readonly to: 'scribe' | 'scout' }
  | { readonly what: 'instruct' }
  | { readonly what: 'shut' }
  | { readonly what: 'reopen' }
  | { readonly what: 'add_keys' }
  | { readonly what: 'limit' }
  | { readonly what: 'rights' }
  | { readonly what: 'run'; readonly comes: 'reply' | 'refused' | 'cancelled' };

/** Creates a room of Larkspur and runs the actions in order, with the secrets of this side. */
export async function runActions(
  api: TestApi,
  suffix: string,
  side: Side,
  program: readonly RoomAction[],
): Promise<TestRoom> {
  const room = await setUpRoom(api, { suffix });
  const { larkspur } = room;
  for (const [index, action] of program.entries()) await runAction(api, room, action, side, index);
  await deliverWakes(api.db, 100);
  await expectStatus(201, larkspur.member.post(`${room.path}/events`, { type: 'message', text: 'the end' }));
  return room;
}

async function runAction(api: TestApi, room: TestRoom, action: RoomAction, side: Side, index: number): Promise<void> {
  const { larkspur } = room;
  const secret = side === 0 ? `azure-${index}` : `crimson-${index} is longer`;
  const post = (body: object): Promise<Json> => expectStatus(201, larkspur.member.post(`${room.path}/events`, body));
  const agent = `/v1/agents/${larkspur.agentId}`;
  switch (action.what) {
    case 'say':
      await post({ type: 'message', text: action.to === 'none' ? 'well' : `@${action.to} hello` });
      return;
    case 'remember': {
      const secretLine = {
        category: side === 0 ? 'fact' : 'decision',
        content: secret,
        tags: side === 0 ? [secret] : [],
      };
      const shared = { category: 'fact', content: `line ${index}`, tags: ['shared'] };
      const { visibility } = action;
      await post({ type: 'memory', visibility, ...(visibility === 'private' ? secretLine : shared) });
      return;
    }
    case 'send_task':
      await post({ type: 'task', to: action.to, goal: `goal ${index}` });
      return;
    case 'instruct':
      await expectStatus(200, larkspur.admin.patch(agent, { instructions: secret, model: `model-${side}` }));
      return;
    case 'shut':
      if (side === 0) await expectStatus(200, larkspur.member.post(`${agent}/pause`));
      else await expectStatus(200, larkspur.admin.patch(agent, { tokens_per_day: 0 }));
      return;
    case 'reopen':
      if (side === 0) await expectStatus(200, larkspur.member.post(`${agent}/resume`));
      else await expectStatus(200, larkspur.admin.patch(agent, { tokens_per_day: null }));
      return;
    case 'add_keys':
      for (let n = 0; n <= side; n += 1) {
        await expectStatus(201, larkspur.admin.post('/v1/keys', { kind: 'service', name: secret }));
        const key = { name: secret, key: `sk-secret-${side}-0123456789`, provider: 'openai' };
        await expectStatus(201, larkspur.admin.post('/v1/model-keys', key));
      }
      return;
    case 'limit':
      await expectStatus(
        200,
        larkspur.admin.patch(`/v1/companies/${larkspur.id}`, { tokens_per_day: 10_000_000 + side }),
      );
      return;
    case 'rights': {
      const rights = { memory: side === 0 ? 'go' : 'refuse' };
      const seat = `${room.path}/roster/${larkspur.agentId}`;
      await expectStatus(200, larkspur.admin.patch(seat, { rights, private_memory: side === 0 }));
      return;
    }
    case 'run':
      return run(api, room, action.comes, side, secret);
  }
}

// A run of Larkspur's agent through the store. Its ending is equal on both sides; its private details differ.
async function run(api: TestApi, room: TestRoom, comes: 'reply' | 'refused' | 'cancelled', side: Side, secret: string) {
  const { larkspur } = room;
  await expectStatus(200, larkspur.member.post(`/v1/agents/${larkspur.agentId}/resume`));
  await expectStatus(200, larkspur.admin.patch(`/v1/agents/${larkspur.agentId}`, { tokens_per_day: null }));
  const text = '@scribe please';
  const { id } = await expectStatus(201, larkspur.member.post(`${room.path}/events`, { type: 'message', text }));
  await deliverWakes(api.db, 100);
  const wake = { agentId: larkspur.agentId, messageId: id };
  const execution = newExecution(larkspur.agentId, id);
  const claim = await claimMessage(api.db, execution, wake, LIMITS);
  if (claim.kind !== 'granted') throw new Error(`not granted: ${claim.kind}`);
  const { runId } = claim;
  const request = await claimRequest(api.db, execution, runId, renderContext);
  if (request.kind !== 'send') throw new Error(`no request to send: ${request.kind}`);
  switch (comes) {
    case 'reply': {
      const memory = { category: 'fact', content: secret, tags: [], visibility: 'private' } as const;
      const tokens = { inputTokens: 10 + side, outputTokens: 20 + side };
      const reply = { ...answered({ reply: null, memory: side === 0 ? null : memory }), ...tokens };
      await endRequest(api.db, execution, runId, request.number, reply, request.target);
      await closeRun(api.db, execution, runId, { kind: 'cancelled' }, { by: 'an admin', why: secret });
      return;
    }
    case 'refused': {
      const code = side === 0 ? ('quota' as const) : ('unknown_model' as const);
      const facts = {
        ...NO_FACTS,
        outcome: 'refused' as const,
        code,
        httpStatus: 400 + side,
        providerCode: `c${side}`,
      };
      await endRequest(api.db, execution, runId, request.number, facts, request.target);
      await closeRun(api.db, execution, runId, { kind: 'ended' });
      return;
    }
    case 'cancelled':
      await closeRun(api.db, execution, runId, { kind: 'cancelled' }, { by: `by-${side}`, why: secret });
  }
}

/** Every existing id of each kind, visible or not. */
async function knownIds(api: TestApi, room: TestRoom): Promise<Record<string, string[]>> {
  const { db } = api;
  const where = { roomId: room.id };
  const companyId = { in: [room.larkspur.id, room.tamarack.id] };
  const ids = (rows: readonly { id: string }[]): string[] => rows.map((row) => row.id).sort();
  return {
    company: [room.larkspur.id, room.tamarack.id],
    agent: [room.larkspur.agentId, room.tamarack.agentId],
    room: [room.id],
    // Only the first keys, which exist in both worlds.
    key: ids(await db.apiKey.findMany({ where: { companyId }, orderBy: { id: 'asc' } })).slice(0, 8),
    model_key: [room.larkspur.modelKeyId, room.tamarack.modelKeyId],
    message: ids(await db.message.findMany({ where })),
    task: ids(await db.task.findMany({ where })),
    entry: ids(await db.memoryEntry.findMany({ where })),
    wake: ids(await db.wake.findMany({ where })),
    run: ids(await db.run.findMany({ where })),
  };
}

/** Queries that filter or sort a list. */
const QUERIES: Readonly<Record<string, readonly string[]>> = {
  '/v1/rooms/:room/memory': [
    '?deprecated=true',
    '?category=fact',
    '?category=decision',
    '?order=desc&limit=1',
    '?q=azure',
    '?q=crimson',
    '?tag=azure',
  ],
  '/v1/runs': ['?ending=refused', '?ending=cancelled', '?state=closed&order=desc'],
  '/v1/wakes': ['?state=suppressed', '?state=claimed'],
};

/**
 * Everything that Tamarack's keys can read: every GET of the route table with every id. Values that differ between worlds
 * (ids, times, names with the suffix) are replaced by the position of their first appearance.
 */
export async function readAll(api: TestApi, room: TestRoom, suffix: string): Promise<string[]> {
  const known = await knownIds(api, room);
  const routes = allRoutes(api.routeDeps).filter((route) => route.method === 'get');
  const { admin, member, service, agent } = room.tamarack;
  const normalize = createNormalizer(suffix, Object.values(known).flat());
  const lines: string[] = [];
  for (const [who, key] of Object.entries({ admin, member, service, agent })) {
    for (const { path } of routes) {
      for (const filled of fill(path, known)) {
        for (const query of ['', ...(QUERIES[path] ?? [])]) {
          lines.push(normalize(`${who} ${filled}${query} ${describe(await get(key, filled + query))}`));
        }
      }
    }
  }
  return lines;
}

async function get(key: ApiClient, path: string): Promise<ApiAnswer> {
  return key.send('GET', path, { headers: { accept: 'application/json' } });
}

function describe({ status, body, text }: ApiAnswer): string {
  const { request_id: _, ...rest } = typeof body === 'object' && body !== null ? body : { text };
  return `${status} ${JSON.stringify(rest)}`;
}

function fill(path: string, known: Readonly<Record<string, readonly string[]>>): string[] {
  const [, name] = /:(\w+)/.exec(path) ?? [];
  if (name === undefined) return [path];
  return (known[name] ?? []).flatMap((id) => fill(path.replace(`:${name}`, id), known));
}

function createNormalizer(suffix: string, known: readonly string[]): (line: string) => string {
  const names = new Map<string, string>(known.map((id) => [id, `${id.split('_')[0]}#known`]));
  for (const [index, id] of known.entries()) names.set(id, `known#${index}`);
  return (line) =>
    line
      .replaceAll(suffix, '')
      .replace(/\b[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}\b/g, (id) => {
        if (!names.has(id)) names.set(id, `id#${names.size}`);
        return names.get(id) as string;
      })
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'time')
      .replace(/"next_cursor":"[^"]*"/g, '"next_cursor":"…"');
}
