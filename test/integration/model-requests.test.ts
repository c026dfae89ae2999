// Model requests: a run claims each before it is sent, at most three; the first stored reply counts. Also the context of a run.

import { renderContext } from '../../activities/context/render';
import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { Prisma } from '../../prisma/generated/client';
import { newId } from '../../prisma/store/db/ids';
import { stageMemory } from '../../prisma/store/rooms/memory';
import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import {
  claimRequest,
  endRequest,
  type RequestClaim,
  type RequestResult,
  type RequestToSend,
} from '../../prisma/store/runs/model-requests';
import { roomView } from '../../prisma/store/runs/context-queries';
import { closeRun } from '../../prisma/store/runs/fence';
import { activitiesOf, answered, newExecution, NO_FACTS, openRun, type OpenRun } from '../support/store-runs';
import { createWorld, type TestAgent, type World } from '../support/world';

let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
});
afterAll(() => world.close());

const ask = (run: OpenRun, execution = run.execution) => claimRequest(world.db, execution, run.id, renderContext);
async function send(run: OpenRun): Promise<RequestToSend> {
  const claim = await ask(run);
  if (claim.kind !== 'send') throw new Error(`not to be sent: ${claim.kind}`);
  return claim;
}
const end = (run: OpenRun, sent: RequestToSend, result: RequestResult) =>
  endRequest(world.db, run.execution, run.id, sent.number, result, sent.target);
const ends = (outcome: RequestResult['outcome'], code: string | null = null, namedWaitMs: number | null = null) => ({
  ...NO_FACTS,
  outcome,
  code,
  namedWaitMs,
});
const close = (run: OpenRun) => closeRun(world.db, run.execution, run.id, { kind: 'ended' });
const rowOf = (run: OpenRun) =>
  world.db.run.findUniqueOrThrow({ where: { id: run.id }, include: { requests: { orderBy: { number: 'asc' } } } });
const keyOf = (agent: TestAgent) => world.db.modelKey.findFirstOrThrow({ where: { name: `key of ${agent.slug}` } });

describe('the number of requests of a run', () => {
  test('is three in total under concurrent attempts and executions', async () => {
    const run = await openRun(world);
    const otherExecutions = Array.from({ length: 5 }, () => newExecution(run.agentId, run.messageId));
    const own = Array.from({ length: 20 }, () => ask(run));
    const others = Promise.allSettled(otherExecutions.map((execution) => ask(run, execution)));
    const claims = await Promise.all(own);
    const sent = claims.filter((claim) => claim.kind === 'send');
    expect(sent.map((claim) => claim.number).sort()).toEqual([1, 2, 3]);
    expect(claims.filter((claim) => claim.kind === 'settled')).toHaveLength(17);
    for (const claim of sent) expect(claim.context).toEqual(sent[0]?.context);
    for (const other of await others) {
      expect(other).toMatchObject({ status: 'rejected', reason: { name: 'Fenced', why: 'not_mine' } });
    }
    expect(await ask(run)).toEqual({ kind: 'settled' });
    const row = await rowOf(run);
    expect(row.requests.map((request) => request.number)).toEqual([1, 2, 3]);
    expect(row.fencedCount).toBe(5);
  });

  test('passes each granted request to the callback, and no settled claim', async () => {
    const run = await openRun(world);
    const passed: RequestToSend[] = [];
    const claims: RequestClaim[] = [];
    for (let n = 0; n < 4; n += 1) {
      claims.push(await claimRequest(world.db, run.execution, run.id, renderContext, (sent) => passed.push(sent)));
    }
    expect(claims.map(({ kind }) => kind)).toEqual(['send', 'send', 'send', 'settled']);
    expect(passed).toEqual(claims.slice(0, 3));
  });

  test('is one for an address that the owner supplied', async () => {
    const key = await keyOf(world.scribe);
    await world.db.modelKey.update({ where: { id: key.id }, data: { ownerSupplied: true } });
    const failing = await openRun(world);
    const claims = await Promise.all(Array.from({ length: 8 }, () => ask(failing)));
    const sent = claims.filter((claim) => claim.kind === 'send');
    expect(sent).toMatchObject([{ number: 1, limit: 1 }]);
    await end(failing, sent[0] as RequestToSend, ends('retry', 'server_error'));
    expect(await ask(failing)).toEqual({ kind: 'settled' });
    expect(await close(failing)).toBe('busy');
    const unanswered = await openRun(world);
    await send(unanswered);
    expect(await ask(unanswered)).toEqual({ kind: 'settled' });
    expect(await close(unanswered)).toBe('failed');
    expect(await rowOf(unanswered)).toMatchObject({ code: 'unknown' });
    await world.db.modelKey.update({ where: { id: key.id }, data: { ownerSupplied: false } });
  });

  test('includes a request without an answer, which is recorded as unknown; after such a last request the run fails', async () => {
    const run = await openRun(world);
    for (const number of [1, 2, 3]) expect((await send(run)).number).toBe(number);
    expect((await rowOf(run)).requests.map((request) => request.outcome)).toEqual(['unknown', 'unknown', 'in_flight']);
    expect(await ask(run)).toEqual({ kind: 'settled' });
    expect((await rowOf(run)).requests[2]).toMatchObject({ outcome: 'unknown', code: 'unknown' });
    expect(await close(run)).toBe('failed');
    expect(await rowOf(run)).toMatchObject({ code: 'unknown', retryAt: null });
  });

  test('includes a request in flight at the close of its run, which is recorded as unknown', async () => {
    const run = await openRun(world);
    await send(run);
    await closeRun(world.db, run.execution, run.id, { kind: 'timed_out' });
    expect((await rowOf(run)).requests).toMatchObject([{ number: 1, outcome: 'unknown' }]);
  });

  test.each(['retry', 'aborted'] as const)('grows by another request after the outcome %s', async (outcome) => {
    const run = await openRun(world);
    await end(run, await send(run), ends(outcome, outcome === 'retry' ? 'overloaded' : null));
    expect(await ask(run)).toMatchObject({ kind: 'send', number: 2, limit: 3 });
  });

  test.each([
    ['refused', 'quota', null],
    ['failed', 'reply_invalid', null],
    ['busy', 'rate_limit', 86_400_000],
  ] as const)('does not grow after the outcome %s', async (outcome, code, wait) => {
    const run = await openRun(world);
    await end(run, await send(run), ends(outcome, code, wait));
    expect(await ask(run)).toEqual({ kind: 'settled' });
    expect(await close(run)).toBe(outcome);
    const row = await rowOf(run);
    const retryAt = wait === null ? null : (row.requests[0]?.endedAt?.getTime() ?? 0) + wait;
    expect({ code: row.code, retryAt: row.retryAt?.getTime() ?? null }).toEqual({ code, retryAt });
  });

  test('is zero if the company has left: the run is closed with the reason', async () => {
    const run = await openRun(world);
    const membership = { roomId: world.roomId, companyId: world.host.id };
    await world.db.roomMember.updateMany({ where: membership, data: { leftAt: new Date() } });
    expect(await ask(run)).toEqual({ kind: 'closed', ending: 'cancelled' });
    await world.db.roomMember.updateMany({ where: membership, data: { leftAt: null } });
    expect(await rowOf(run)).toMatchObject({ cancelledBy: 'room', cancelReason: 'not_a_member', requests: [] });
  });
});

describe('the first stored reply is the reply of the run', () => {
  test('despite later replies and errors, and for every later attempt', async () => {
    const run = await openRun(world);
    const [first, second, third] = [await send(run), await send(run), await send(run)];
    const stored = await end(run, second, answered({ reply: 'second came first' }));
    expect(stored).toMatchObject({ reply: { reply: 'second came first' }, rights: { reply: 'go' } });
    // The stored rights are those of the moment of storing.
    await world.db.roomAgent.updateMany({ where: { agentId: world.scribe.id }, data: { rightReply: 'refuse' } });
    expect(await end(run, first, answered({ reply: 'too late' }))).toEqual(stored);
    expect(await end(run, third, ends('refused', 'quota'))).toEqual(stored);
    await world.db.roomAgent.updateMany({ where: { agentId: world.scribe.id }, data: { rightReply: 'go' } });
    expect(await ask(run)).toEqual({ kind: 'reply', ...stored });
    expect((await rowOf(run)).requests.map((request) => request.outcome)).toEqual(['answered', 'answered', 'refused']);
  });

  test('also for two concurrent replies: both attempts continue with the same reply', async () => {
    const run = await openRun(world);
    const sent = [await send(run), await send(run)];
    const came = await Promise.all(sent.map((each, index) => end(run, each, answered({ reply: `reply ${index}` }))));
    expect(came[0]).toEqual(came[1]);
    expect((await rowOf(run)).reply).toEqual(came[0]?.reply);
  });

  test('also for an attempt that ends after the close of the run; without a reply that attempt is fenced', async () => {
    const run = await openRun(world);
    const [first, second] = [await send(run), await send(run)];
    const stored = await end(run, first, answered({ reply: 'in time' }));
    await closeRun(world.db, run.execution, run.id, { kind: 'timed_out' });
    expect(await end(run, second, answered({ reply: 'late' }))).toEqual(stored);
    const empty = await openRun(world);
    const late = await send(empty);
    await closeRun(world.db, empty.execution, empty.id, { kind: 'timed_out' });
    await expect(end(empty, late, answered({ reply: 'late' }))).rejects.toMatchObject({
      name: 'Fenced',
      why: 'closed',
    });
    expect(await rowOf(empty)).toMatchObject({ reply: null, rights: null, requests: [{ outcome: 'unknown' }] });
  });
});

describe('a refused key', () => {
  const rejected = ends('refused', 'key_rejected');

  test('is marked in the version that it was sent with', async () => {
    const agent = await world.addAgent({ slug: 'keeper' });
    const run = await runOf(agent);
    await end(run, await send(run), rejected);
    expect(await keyOf(agent)).toMatchObject({ version: 1, rejectedVersion: 1 });
    expect(await keyOf(world.scribe)).toMatchObject({ rejectedVersion: null });
  });

  test('is not marked if its secret was replaced meanwhile; the new secret is marked if it is refused too', async () => {
    const agent = await world.addAgent({ slug: 'changer' });
    const run = await runOf(agent);
    const old = await send(run);
    await world.db.modelKey.update({ where: { id: (await keyOf(agent)).id }, data: { version: 2 } });
    const renewed = await send(run);
    await end(run, old, rejected);
    expect(await keyOf(agent)).toMatchObject({ version: 2, rejectedVersion: null });
    await end(run, renewed, rejected);
    expect(await keyOf(agent)).toMatchObject({ version: 2, rejectedVersion: 2 });
  });

  test('is the key that was sent, not the key that the agent got meanwhile', async () => {
    const agent = await world.addAgent({ slug: 'mover' });
    const run = await runOf(agent);
    const before = await send(run);
    const [key, id] = [await keyOf(agent), newId('mk')];
    const sealedSecret = world.secretBox.seal('sk-other', modelKeyBinding(id, key.baseUrl));
    await world.db.modelKey.create({ data: { ...key, id, name: 'other key', sealedSecret } });
    await world.db.agent.update({ where: { id: agent.id }, data: { modelKeyId: id } });
    const after = await send(run);
    expect([before.target.keyId, after.target.keyId]).toEqual([key.id, id]);
    await end(run, after, rejected);
    expect(await keyOf(agent)).toMatchObject({ rejectedVersion: null });
    expect(await world.db.modelKey.findUniqueOrThrow({ where: { id } })).toMatchObject({ rejectedVersion: 1 });
    expect(await rowOf(run)).toMatchObject({ modelKeyId: id });
  });

  test('is not marked for an agent without a model', async () => {
    const agent = await world.addAgent({ slug: 'modelless' });
    const run = await runOf(agent);
    await world.db.agent.update({ where: { id: agent.id }, data: { model: null } });
    expect(await activitiesOf(world, run.execution).callModel({ run: run.id })).toEqual({ status: 'settled' });
    expect(await close(run)).toBe('refused');
    expect(await rowOf(run)).toMatchObject({ code: 'unknown_model' });
    expect(await keyOf(agent)).toMatchObject({ rejectedVersion: null });
  });
});

/** A run of the given agent instead of scribe. */
async function runOf(agent: TestAgent): Promise<OpenRun> {
  return openRun({ ...world, scribe: agent });
}

async function remember(author: Author, visibility: 'shared' | 'private', content: string): Promise<string> {
  return world.db.transaction(async (tx) => {
    const draft = new RoomDraft(world.roomId);
    const line = { category: 'fact', tags: [], content, visibility, author, runId: null } as const;
    const { memoryId } = stageMemory(draft, world.roomId, line);
    await draft.append(tx);
    return memoryId;
  });
}

describe('the context of a run', () => {
  test('is stored once: every request gets the same room, and only ids and hashes remain after the run', async () => {
    const line = await remember(world.host.person, 'shared', 'canary memory');
    const task = await world.sendTask('scribe', 'canary goal');
    const run = await openRun(world, { text: 'canary question' });
    const first = await send(run);
    for (const canary of ['canary memory', 'canary goal', 'canary question'])
      expect(first.context.user).toContain(canary);
    await world.post('something new');
    await remember(world.host.person, 'shared', 'something else');
    const second = await send(run);
    expect(second.context).toEqual(first.context);
    expect((await rowOf(run)).context).toEqual(first.context);
    await end(run, second, answered({ reply: null }));
    await close(run);
    const { context, manifest } = await rowOf(run);
    expect(context).toBeNull();
    const kept = JSON.stringify(manifest);
    expect(kept).not.toContain('canary');
    for (const id of [run.messageId, line, task.messageId, task.taskId]) expect(kept).toContain(id);
    expect(manifest).toMatchObject({ waking: { id: run.messageId, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) } });
  });

  test('holds private memory only of its own company, and only if that company allows it', async () => {
    await remember(world.host.person, 'private', 'secret of the host');
    await remember(world.guest.person, 'private', 'secret of the guest');
    const secretsIn = async (agent: TestAgent, allowed: boolean) => {
      await world.db.roomAgent.updateMany({ where: { agentId: agent.id }, data: { privateMemory: allowed } });
      const { context } = await send(await runOf(agent));
      return ['secret of the host', 'secret of the guest'].filter((secret) => JSON.stringify(context).includes(secret));
    };
    for (let round = 0; round < 5; round += 1) {
      expect(await secretsIn(world.scribe, false)).toEqual([]);
      expect(await secretsIn(world.scribe, true)).toEqual(['secret of the host']);
      expect(await secretsIn(world.scout, true)).toEqual(['secret of the guest']);
      expect(await secretsIn(world.scout, false)).toEqual([]);
    }
  });

  test('belongs to one company: a missing id throws, and another company gets nothing', async () => {
    const { messageId } = await world.post('anything');
    const whole = { roomId: world.roomId, agentId: world.scribe.id, companyId: world.host.id, messageId };
    const read = (run: typeof whole) =>
      world.db.$queryRaw<{ view: unknown }[]>(Prisma.sql`SELECT (${roomView(run)}) AS view`);
    for (const field of ['roomId', 'agentId', 'companyId', 'messageId']) {
      for (const missing of [undefined, null, '']) {
        expect(() => roomView({ ...whole, [field]: missing })).toThrow('for one run of one company');
      }
    }
    expect((await read(whole))[0]?.view).toMatchObject({ agent: { slug: 'scribe' } });
    expect(await read({ ...whole, companyId: world.guest.id })).toEqual([{ view: null }]);
    expect(await read({ ...whole, agentId: world.scout.id })).toEqual([{ view: null }]);
  });
});
