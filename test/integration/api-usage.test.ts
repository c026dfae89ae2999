// Usage of rooms, agents and companies, its visibility, and the budgets that admins set.

import { claimMessage } from '../../prisma/store/runs/claims';
import { newId } from '../../prisma/store/db/ids';
import { parseMicros } from '../../workflows/policy/prices';
import { IS_UNCOUNTED, isUncounted } from '../../prisma/store/eligibility/request-usage';
import { closeRun } from '../../prisma/store/runs/fence';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { expectStatus, setUpRoom, startTestApi, type Json, type TestApi, type TestRoom } from '../support/api';

let api: TestApi;
let rooms = 0;
const micros = (decimal: string): bigint => parseMicros(decimal) ?? 0n;

beforeAll(async () => {
  const price = { inputMicros: micros('2.5'), outputMicros: micros('10'), currency: 'USD' };
  api = await startTestApi({ prices: new Map([['test-model', price]]) });
});
afterAll(() => api.close());

const newRoom = (): Promise<TestRoom> => setUpRoom(api, { suffix: `-${(rooms += 1)}` });

interface RequestRow {
  readonly outcome: string;
  readonly httpStatus?: number;
  readonly tokens?: readonly [bigint, bigint];
}

/** Creates a run of one of the room's agents with these requests, and closes it unless `open` is set. */
async function createRun(
  room: TestRoom,
  agentId: string,
  requests: readonly RequestRow[],
  options: { model?: string; open?: boolean } = {},
) {
  const slug = agentId === room.larkspur.agentId ? 'scribe' : 'scout';
  const body = { type: 'message', text: `@${slug} please` };
  const posted = await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, body));
  await deliverWakes(api.db, 100);
  const execution = { workflowId: `wake/${agentId}/${posted.id}`, temporalRunId: `temporal-${posted.id}` };
  const claim = await claimMessage(api.db, execution, { agentId, messageId: posted.id }, { timeLimitMs: 300_000 });
  if (claim.kind !== 'granted') throw new Error(`not granted: ${claim.kind}`);
  await api.db.run.update({ where: { id: claim.runId }, data: { model: options.model ?? 'test-model' } });
  await api.db.modelRequest.createMany({
    data: requests.map(({ outcome, httpStatus, tokens }, index) => ({
      runId: claim.runId,
      number: index + 1,
      outcome,
      httpStatus: httpStatus ?? null,
      inputTokens: tokens?.[0] ?? null,
      outputTokens: tokens?.[1] ?? null,
      endedAt: outcome === 'in_flight' ? null : new Date(),
    })),
  });
  if (options.open !== true) await closeRun(api.db, execution, claim.runId, { kind: 'failed', code: 'internal' });
  return claim.runId;
}

/** Creates a wake of one of the room's agents that is suppressed for this reason. */
async function createSuppressedWake(room: TestRoom, company: 'larkspur' | 'tamarack', reason: string): Promise<void> {
  await api.db.wake.create({
    data: {
      id: newId('wake'),
      agentId: room[company].agentId,
      messageId: newId('msg'),
      roomId: room.id,
      companyId: room[company].id,
      hop: 0,
      state: 'suppressed',
      reason,
    },
  });
}

const ANSWERED = { outcome: 'answered', httpStatus: 200, tokens: [100n, 40n] } as const;
const OVERLOADED = { outcome: 'retry', httpStatus: 529 } as const;

test('the usage of a room has all data of the caller’s company, and of others only the data in the feed', async () => {
  const room = await newRoom();
  const { larkspur, tamarack } = room;
  await createRun(room, larkspur.agentId, [OVERLOADED, ANSWERED]);
  await createRun(room, larkspur.agentId, [{ ...ANSWERED, tokens: [2n ** 60n, 1n] }]);
  await createRun(room, larkspur.agentId, [], { open: true });
  await createRun(room, tamarack.agentId, [ANSWERED, { outcome: 'unknown' }]);
  for (const reason of ['budget', 'paused', 'hop_limit']) {
    await createSuppressedWake(room, 'larkspur', reason);
    await createSuppressedWake(room, 'tamarack', reason);
  }
  const own = await expectStatus(200, larkspur.service.get(`${room.path}/usage`));
  expect(own).toEqual({
    room: room.id,
    since: expect.stringMatching(/Z$/),
    until: expect.stringMatching(/Z$/),
    runs: { total: 4, open: 1, endings: { failed: 3 } },
    wakes_suppressed: { total: 6, reasons: { budget: 1, paused: 1, hop_limit: 2, unavailable: 2 } },
    own: {
      runs: { total: 3, open: 1, endings: { failed: 2 } },
      wakes_suppressed: { total: 3, reasons: { budget: 1, paused: 1, hop_limit: 1 } },
      requests: { total: 3, outcomes: { retry: 1, answered: 2 } },
      tokens: { input_tokens: (2n ** 60n + 100n).toString(), output_tokens: 41, uncounted_requests: 0 },
      money: { amounts: { USD: '2882303761517.1181' }, unpriced_requests: 0 },
    },
  });
  expect(Date.parse(own.until) - Date.parse(own.since)).toBe(24 * 3_600_000);

  const theirs = await expectStatus(200, tamarack.agent.get(`${room.path}/usage`));
  expect(theirs).toMatchObject({
    runs: own.runs,
    wakes_suppressed: { total: 6, reasons: { budget: 1, paused: 1, hop_limit: 2, unavailable: 2 } },
  });
  expect(theirs.own).toEqual({
    runs: { total: 1, open: 0, endings: { failed: 1 } },
    wakes_suppressed: { total: 3, reasons: { budget: 1, paused: 1, hop_limit: 1 } },
    requests: { total: 2, outcomes: { answered: 1, unknown: 1 } },
    tokens: { input_tokens: 100, output_tokens: 40, uncounted_requests: 1 },
    money: { amounts: null, unpriced_requests: 1 },
  });
});

test('requests, tokens and reasons of another company do not change the usage of a room', async () => {
  const room = await newRoom();
  await createRun(room, room.larkspur.agentId, [ANSWERED]);
  await createSuppressedWake(room, 'larkspur', 'budget');
  const readUsage = async (): Promise<Json> => {
    const { since: _, until: __, ...rest } = await expectStatus(200, room.tamarack.admin.get(`${room.path}/usage`));
    return rest;
  };
  const before = await readUsage();
  await api.db.modelRequest.updateMany({
    where: { run: { roomId: room.id } },
    data: { outcome: 'refused', inputTokens: 7_777n, outputTokens: 7_777n },
  });
  await api.db.run.updateMany({ where: { roomId: room.id }, data: { model: 'canary' } });
  await api.db.wake.updateMany({ where: { roomId: room.id, reason: 'budget' }, data: { reason: 'key_rejected' } });
  await api.db.company.update({ where: { id: room.larkspur.id }, data: { tokensPerDay: 1n } });
  expect(await readUsage()).toEqual(before);
});

test('the usage of an agent and of its company covers all their rooms, also rooms that the company left', async () => {
  const room = await newRoom();
  const { larkspur, tamarack } = room;
  await createRun(room, larkspur.agentId, [ANSWERED]);
  await createRun(room, tamarack.agentId, [ANSWERED, ANSWERED]);
  await createSuppressedWake(room, 'tamarack', 'budget');
  const member = { roomId_companyId: { roomId: room.id, companyId: tamarack.id } };
  await api.db.roomMember.update({ where: member, data: { leftAt: new Date() } });
  const used = {
    since: expect.any(String),
    until: expect.any(String),
    runs: { total: 1, open: 0, endings: { failed: 1 } },
    wakes_suppressed: { total: 1, reasons: { budget: 1 } },
    requests: { total: 2, outcomes: { answered: 2 } },
    tokens: { input_tokens: 200, output_tokens: 80, uncounted_requests: 0 },
    money: { amounts: { USD: '0.0013' }, unpriced_requests: 0 },
    budget: null,
  };
  for (const client of [tamarack.admin, tamarack.member, tamarack.service, tamarack.agent]) {
    expect(await expectStatus(200, client.get(`/v1/agents/${tamarack.agentId}/usage`))).toEqual({
      agent: tamarack.agentId,
      ...used,
    });
  }
  for (const client of [tamarack.admin, tamarack.member, tamarack.service]) {
    expect(await expectStatus(200, client.get(`/v1/companies/${tamarack.id}/usage`))).toEqual({
      company: tamarack.id,
      ...used,
    });
  }
  // The company no longer sees the room itself.
  expect((await tamarack.admin.get(`${room.path}/usage`)).status).toBe(404);
});

test('another company gets the 404 of an unknown id, and an agent’s key reads only its own usage', async () => {
  const room = await newRoom();
  const { larkspur, tamarack } = room;
  const expectNotFound = async (path: string, unknown: string): Promise<void> => {
    const [foreign, missing] = [await tamarack.admin.get(path), await tamarack.admin.get(unknown)];
    expect([path, foreign.status]).toEqual([path, 404]);
    expect({ ...foreign.body, request_id: null }).toEqual({ ...missing.body, request_id: null });
  };
  const other = await newRoom();
  await expectNotFound(`/v1/agents/${larkspur.agentId}/usage`, `/v1/agents/${newId('agent')}/usage`);
  await expectNotFound(`/v1/companies/${larkspur.id}/usage`, `/v1/companies/${newId('co')}/usage`);
  await expectNotFound(`${other.path}/usage`, `/v1/rooms/${newId('room')}/usage`);
  const sibling = await expectStatus(201, larkspur.admin.post('/v1/agents', { name: 'Sibling', always_on: false }));
  expect((await larkspur.agent.get(`/v1/agents/${sibling.id}/usage`)).status).toBe(403);
  expect((await larkspur.agent.get(`/v1/companies/${larkspur.id}/usage`)).status).toBe(403);
});

test('a time range counts the runs claimed in it, and excludes its end', async () => {
  const room = await newRoom();
  const id = await createRun(room, room.larkspur.agentId, [ANSWERED]);
  await createSuppressedWake(room, 'larkspur', 'paused');
  const at = new Date('2026-03-01T12:00:00Z');
  await api.db.run.update({ where: { id }, data: { claimedAt: at } });
  await api.db.wake.updateMany({ where: { roomId: room.id }, data: { createdAt: at } });
  const total = async (query: string): Promise<number[]> => {
    const usage = await expectStatus(200, room.larkspur.member.get(`${room.path}/usage?${query}`));
    return [usage.runs.total, usage.own.requests.total, usage.wakes_suppressed.total];
  };
  expect(await total('')).toEqual([0, 0, 0]);
  expect(await total('since=2026-03-01T12:00:00Z')).toEqual([1, 1, 1]);
  expect(await total('since=2026-03-01T12:00:00.001Z')).toEqual([0, 0, 0]);
  expect(await total('since=2026-01-01T00:00:00Z&until=2026-03-01T12:00:00Z')).toEqual([0, 0, 0]);
  expect(await total('until=2026-03-01T12:00:00.001Z')).toEqual([1, 1, 1]);
  // Without `since`, the range begins 24 hours before `until`.
  expect(await total('until=2026-03-02T12:00:00Z')).toEqual([1, 1, 1]);
  expect(await total('until=2026-03-02T12:00:00.001Z')).toEqual([0, 0, 0]);
});

test.each([
  ['since=yesterday', 'since'],
  ['until=2026-03-01', 'until'],
  ['since=2026-03-01T12:00:00Z&until=2026-03-01T12:00:00Z', 'since'],
  ['since=9999-01-01T00:00:00Z', 'since'],
  ['from=2026-03-01T12:00:00Z', 'from'],
])('an invalid time range is refused: %s', async (query, parameter) => {
  const room = await newRoom();
  const paths = [room.path, `/v1/agents/${room.larkspur.agentId}`, `/v1/companies/${room.larkspur.id}`];
  for (const path of paths) {
    const answer = await room.larkspur.admin.get(`${path}/usage?${query}`);
    expect([path, answer.status]).toEqual([path, 400]);
    expect(answer.body.parameter).toBe(parameter);
  }
});

test('IS_UNCOUNTED in SQL agrees with isUncounted in code', async () => {
  const outcomes = ['in_flight', 'answered', 'retry', 'busy', 'refused', 'failed', 'aborted', 'unknown'];
  const cases = outcomes.flatMap((outcome) =>
    [null, 199, 200, 299, 300, 429].flatMap((httpStatus) =>
      [null, 5n].flatMap((inputTokens) =>
        [null, 7n].map((outputTokens) => ({ outcome, httpStatus, inputTokens, outputTokens })),
      ),
    ),
  );
  const rows = cases.map((each) => ({
    outcome: each.outcome,
    http_status: each.httpStatus,
    input_tokens: each.inputTokens === null ? null : Number(each.inputTokens),
    output_tokens: each.outputTokens === null ? null : Number(each.outputTokens),
  }));
  const found = await api.db.$queryRaw<{ uncounted: boolean }[]>`
    SELECT ${IS_UNCOUNTED} AS uncounted
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
         AS x(outcome text, http_status int, input_tokens bigint, output_tokens bigint)`;
  expect(found.map((row) => row.uncounted)).toEqual(cases.map(isUncounted));
});

describe('a budget', () => {
  test('of an agent is set and seen by its own company only', async () => {
    const room = await newRoom();
    const { larkspur, tamarack } = room;
    const path = `/v1/agents/${larkspur.agentId}`;
    expect((await larkspur.member.get(path)).body).toMatchObject({ tokens_per_day: null, tokens_per_run: 50_000 });
    const budget = { tokens_per_day: 1_000_000_000_000_000, tokens_per_run: 2_000 };
    expect(await expectStatus(200, larkspur.admin.patch(path, budget))).toMatchObject(budget);
    // Another change does not change the budget.
    expect(await expectStatus(200, larkspur.admin.patch(path, { instructions: 'Be brief!' }))).toMatchObject(budget);
    const seen = await tamarack.admin.get(path);
    expect(seen.text).not.toMatch(/tokens/);
    expect((await tamarack.admin.patch(path, { tokens_per_day: 1 })).status).toBe(404);
    expect((await larkspur.member.patch(path, { tokens_per_day: 1 })).status).toBe(403);
    expect(await expectStatus(200, larkspur.admin.patch(path, { tokens_per_day: null }))).toMatchObject({
      tokens_per_day: null,
      tokens_per_run: 2_000,
    });
    const made = { name: 'Frugal', always_on: false, tokens_per_day: 10, tokens_per_run: 10 };
    expect(await expectStatus(201, larkspur.admin.post('/v1/agents', made))).toMatchObject(made);
  });

  test.each([
    [{ tokens_per_day: -1 }, '/tokens_per_day'],
    [{ tokens_per_day: 1.5 }, '/tokens_per_day'],
    [{ tokens_per_day: '100000' }, '/tokens_per_day'],
    [{ tokens_per_day: 1e16 }, '/tokens_per_day'],
    [{ tokens_per_day: 49_999 }, '/tokens_per_day'],
    [{ tokens_per_day: 10, tokens_per_run: 11 }, '/tokens_per_day'],
    [{ tokens_per_run: 0 }, '/tokens_per_run'],
    [{ tokens_per_run: null }, '/tokens_per_run'],
    [{ tokens_per_run: 1_000_000_001 }, '/tokens_per_run'],
  ])('of an agent is refused if it is invalid: %j', async (change, pointer) => {
    const { larkspur } = await newRoom();
    for (const answer of [
      await larkspur.admin.patch(`/v1/agents/${larkspur.agentId}`, change),
      await larkspur.admin.post('/v1/agents', { name: 'Another', always_on: false, ...change }),
    ]) {
      expect([answer.status, answer.body.pointer]).toEqual([400, pointer]);
    }
  });

  test('of 0 per day stops an agent', async () => {
    const room = await newRoom();
    const path = `/v1/agents/${room.larkspur.agentId}`;
    await expectStatus(200, room.larkspur.admin.patch(path, { tokens_per_day: 0 }));
    const event = { type: 'message', text: '@scribe anyone?' };
    const { wakes } = await expectStatus(201, room.larkspur.member.post(`${room.path}/events`, event));
    await deliverWakes(api.db, 100);
    const seen = async (client = room.larkspur.member) => (await client.get(`/v1/wakes/${wakes[0].wake}`)).body;
    expect(await seen()).toMatchObject({ state: 'suppressed', reason: 'budget' });
    expect(await seen(room.tamarack.member)).toMatchObject({ state: 'suppressed', reason: 'unavailable' });
    const feed = await room.tamarack.member.get(`${room.path}/events?limit=200`);
    expect(feed.body.data.at(-1)).toMatchObject({ type: 'wake_suppressed', data: { reason: 'unavailable' } });
    expect(feed.text).not.toContain('budget');
  });

  test('of a company is set by its own admin, and other companies and the operator do not see it', async () => {
    const { larkspur, tamarack } = await newRoom();
    const path = `/v1/companies/${larkspur.id}`;
    expect((await larkspur.member.get(path)).body).toMatchObject({ id: larkspur.id, tokens_per_day: null });
    expect(await expectStatus(200, larkspur.admin.patch(path, { tokens_per_day: 7 }))).toMatchObject({
      id: larkspur.id,
      tokens_per_day: 7,
    });
    expect((await larkspur.service.get(path)).body.tokens_per_day).toBe(7);
    const [foreign, missing] = [
      await tamarack.admin.patch(path, { tokens_per_day: 1 }),
      await tamarack.admin.patch(`/v1/companies/${newId('co')}`, { tokens_per_day: 1 }),
    ];
    expect(foreign.status).toBe(404);
    expect({ ...foreign.body, request_id: null }).toEqual({ ...missing.body, request_id: null });
    const operator = api.client(api.operatorKey);
    expect((await operator.get(path)).text).not.toMatch(/tokens/);
    expect((await operator.get('/v1/companies?limit=200')).text).not.toMatch(/tokens/);
    expect((await operator.patch(path, { tokens_per_day: 1 })).status).toBe(403);
    expect((await larkspur.member.patch(path, { tokens_per_day: 1 })).status).toBe(403);
    for (const body of [{}, { tokens_per_day: -1 }, { tokens_per_day: 'x' }, { tokens_per_day: 1, name: 'Other' }]) {
      expect((await larkspur.admin.patch(path, body)).status).toBe(400);
    }
    expect(await expectStatus(200, larkspur.admin.patch(path, { tokens_per_day: null }))).toMatchObject({
      tokens_per_day: null,
    });
  });

  test('shows the tokens that count against it today', async () => {
    const room = await newRoom();
    const { larkspur } = room;
    await expectStatus(200, larkspur.admin.patch(`/v1/companies/${larkspur.id}`, { tokens_per_day: 120_000 }));
    await expectStatus(
      200,
      larkspur.admin.patch(`/v1/agents/${larkspur.agentId}`, { tokens_per_day: 50_200, tokens_per_run: 50_000 }),
    );
    await createRun(room, larkspur.agentId, [ANSWERED]);
    await createRun(room, larkspur.agentId, [], { open: true });
    const of = async (path: string) => (await expectStatus(200, larkspur.member.get(`${path}/usage`))).budget;
    const today = { day: expect.stringMatching(/^\d{4}-\d\d-\d\d$/), settled: 140, reserved: 50_000 };
    expect(await of(`/v1/agents/${larkspur.agentId}`)).toEqual({ ...today, tokens_per_day: 50_200, left: 60 });
    expect(await of(`/v1/companies/${larkspur.id}`)).toEqual({ ...today, tokens_per_day: 120_000, left: 69_860 });
    // If the limit is lower than the counted tokens, 0 is left.
    await expectStatus(200, larkspur.admin.patch(`/v1/companies/${larkspur.id}`, { tokens_per_day: 9 }));
    expect(await of(`/v1/companies/${larkspur.id}`)).toEqual({ ...today, tokens_per_day: 9, left: 0 });
  });
});

test('a run shows its usage and cost to its own company only', async () => {
  const room = await newRoom();
  const id = await createRun(room, room.larkspur.agentId, [OVERLOADED, ANSWERED]);
  const other = await createRun(room, room.larkspur.agentId, [{ outcome: 'unknown' }, ANSWERED], { model: 'unpriced' });
  const usage = async (run: string, client = room.larkspur.member) => (await client.get(`/v1/runs/${run}`)).body.usage;
  expect(await usage(id)).toEqual({
    requests: 2,
    input_tokens: 100,
    output_tokens: 40,
    uncounted_requests: 0,
    money: { amounts: { USD: '0.00065' }, unpriced_requests: 0 },
  });
  expect(await usage(other)).toMatchObject({
    uncounted_requests: 1,
    money: { amounts: null, unpriced_requests: 2 },
  });
  expect(await usage(id, room.tamarack.admin)).toBeUndefined();
});
