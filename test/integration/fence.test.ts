// The fence: every step of a run acts at most once, only for the execution that owns the run, and only while it is open.

import { randomUUID } from 'node:crypto';
import { claimRequest, endRequest } from '../../prisma/store/runs/model-requests';
import { newId } from '../../prisma/store/db/ids';
import { translateFailures } from '../../activities/failure';
import { renderContext } from '../../activities/context/render';
import type { DeclaredReply } from '../../workflows/contract';
import { openRoom } from '../support/rooms';
import {
  activitiesOf,
  answered,
  eventsOf,
  holdTransaction,
  openRun,
  repliedRun,
  untilWaiting,
  type OpenRun,
} from '../support/store-runs';
import { createWorld, type World } from '../support/world';

const NO_KEY = { keyId: null, keyVersion: null };

const MODEL_URL = 'http://127.0.0.1:9/v1';
let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: MODEL_URL });
});
afterAll(() => world.close());

const LINE = { category: 'fact', content: 'the line', tags: ['tag'], visibility: 'shared' } as const;
const DECLARED: Partial<DeclaredReply> = { reply: 'a reply', memory: LINE };

const acting = (run: OpenRun, execution = run.execution) => activitiesOf(world, execution);
const otherExecution = (run: OpenRun) => ({ ...run.execution, temporalRunId: randomUUID() });

/** Everything that a run has stored. */
async function leftBy(run: OpenRun) {
  const where = { runId: run.id };
  const row = await world.db.run.findUniqueOrThrow({
    where: { id: run.id },
    include: { steps: { orderBy: { position: 'asc' } } },
  });
  return {
    texts: (await world.db.message.findMany({ where, orderBy: { seq: 'asc' } })).map((message) => message.text),
    lines: await world.db.memoryEntry.count({ where }),
    steps: row.steps.map((step) => `${step.stepKey}=${step.state}`),
    ending: row.ending,
    fenced: row.fencedCount,
    endedEvents: (await eventsOf(world, 'run_ended')).filter((event) => event.subjectId === run.id).length,
  };
}

const fenced = (why: string) => ({ type: 'Fenced', message: `Fenced: ${why}`, nonRetryable: true });

describe('a step of a run', () => {
  test('acts once and then always returns its record, even after the run is closed', async () => {
    const run = await repliedRun(world, DECLARED);
    const post = () => acting(run).postReply({ run: run.id, step: 'reply' });
    expect(await post()).toEqual({ state: 'done' });
    expect(await post()).toEqual({ state: 'done' });
    expect(await leftBy(run)).toMatchObject({ texts: ['a reply'], lines: 0, steps: ['reply=done'], ending: null });
    const remember = () => acting(run).writeMemory({ run: run.id, step: 'memory' });
    expect(await remember()).toEqual({ state: 'done', ending: 'replied' });
    expect(await remember()).toEqual({ state: 'done', ending: 'replied' });
    expect(await post()).toEqual({ state: 'done', ending: 'replied' });
    expect(await leftBy(run)).toMatchObject({ texts: ['a reply'], lines: 1, ending: 'replied', endedEvents: 1 });
  });

  test('acts once under concurrent attempts', async () => {
    const run = await repliedRun(world, DECLARED);
    const attempts = Array.from({ length: 12 }, () => acting(run).postReply({ run: run.id, step: 'reply' }));
    expect(await Promise.all(attempts)).toEqual(attempts.map(() => ({ state: 'done' })));
    expect(await leftBy(run)).toMatchObject({ texts: ['a reply'], steps: ['reply=done'], ending: null });
  });

  test('posts its reply one hop deeper, as its agent, with a reference to the message that woke it', async () => {
    const run = await repliedRun(world, { reply: 'deeper' }, { hop: 2 });
    await acting(run).postReply({ run: run.id, step: 'reply' });
    const [reply] = await world.db.message.findMany({ where: { runId: run.id } });
    expect(reply).toMatchObject({ hop: 3, authorId: world.scribe.id, refersTo: run.messageId, kind: 'text' });
  });

  test('that is the last closes the run in its transaction: the event follows the effect directly', async () => {
    const run = await repliedRun(world, DECLARED);
    await acting(run).postReply({ run: run.id, step: 'reply' });
    await acting(run).writeMemory({ run: run.id, step: 'memory' });
    const events = await eventsOf(world);
    const at = events.findIndex((event) => event.subjectId === run.id && event.type === 'run_ended');
    expect(events[at - 1]).toMatchObject({ type: 'memory', at: events[at]?.at });
    const row = await world.db.run.findUniqueOrThrow({ where: { id: run.id }, include: { steps: true } });
    const posted = row.steps.find((step) => step.stepKey === 'reply')?.effectId;
    expect(events[at]?.data).toEqual({
      run: run.id,
      agent: world.scribe.id,
      message: run.messageId,
      ending: 'replied',
      posted,
    });
    expect(row).toMatchObject({ state: 'closed', context: null, code: null });
  });

  test('fails without a post if its reply addresses more agents than a message may wake', async () => {
    const slugs = Array.from({ length: 11 }, (_, index) => `crowd-${index}`);
    for (const slug of slugs) await world.addAgent({ slug });
    const run = await repliedRun(world, { ...DECLARED, reply: slugs.map((slug) => `@${slug}`).join(' ') });
    expect(await acting(run).postReply({ run: run.id, step: 'reply' })).toEqual({ state: 'failed', ending: 'failed' });
    expect(await leftBy(run)).toMatchObject({ texts: [], lines: 0, steps: ['reply=failed', 'memory=superseded'] });
    expect(await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).toMatchObject({ code: 'reply_invalid' });
  });
});

describe('an execution that does not own the run', () => {
  test('is fenced and counted in every activity, and changes nothing', async () => {
    const run = await repliedRun(world, DECLARED);
    const other = otherExecution(run);
    const attempts = [
      () => acting(run, other).postReply({ run: run.id, step: 'reply' }),
      () => acting(run, other).callModel({ run: run.id }),
      () => acting(run, other).closeRun({ run: run.id, reason: { kind: 'cancelled' } }),
      () => acting(run, { ...run.execution, workflowId: 'other' }).postReply({ run: run.id, step: 'reply' }),
    ];
    for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject(fenced('not_mine'));
    await expect(endRequest(world.db, other, run.id, 1, answered({ reply: 'forged' }), NO_KEY)).rejects.toMatchObject({
      why: 'not_mine',
    });
    expect(await leftBy(run)).toMatchObject({ texts: [], steps: [], ending: null, fenced: 5, endedEvents: 0 });
  });

  test('is also fenced for a step that the owner has completed', async () => {
    const run = await repliedRun(world, DECLARED);
    await acting(run).postReply({ run: run.id, step: 'reply' });
    await expect(acting(run, otherExecution(run)).postReply({ run: run.id, step: 'reply' })).rejects.toMatchObject(
      fenced('not_mine'),
    );
  });
});

describe('a closed run', () => {
  test('refuses late attempts: steps that were not reached stay so', async () => {
    const run = await repliedRun(world, DECLARED);
    await acting(run).postReply({ run: run.id, step: 'reply' });
    const reason = { kind: 'failed', code: 'no_answer', step: 'memory' } as const;
    expect(await acting(run).closeRun({ run: run.id, reason })).toBe('partial');
    const left = await leftBy(run);
    expect(left).toMatchObject({ lines: 0, steps: ['reply=done', 'memory=failed'], ending: 'partial' });
    // The abandoned step has a record. A step that was never tried finds the closed run.
    expect(await acting(run).writeMemory({ run: run.id, step: 'memory' })).toEqual({
      state: 'failed',
      ending: 'partial',
    });
    const early = await openRun(world);
    await acting(early).closeRun({ run: early.id, reason: { kind: 'ended' } });
    await expect(acting(early).callModel({ run: early.id })).rejects.toMatchObject(fenced('closed'));
    await expect(acting(early).postReply({ run: early.id, step: 'reply' })).rejects.toMatchObject(fenced('closed'));
    await expect(
      endRequest(world.db, early.execution, early.id, 1, answered({ reply: 'late' }), NO_KEY),
    ).rejects.toMatchObject({ why: 'closed' });
    expect(await leftBy(run)).toEqual(left);
    expect(await leftBy(early)).toMatchObject({ texts: [], steps: [], ending: 'failed', fenced: 0 });
  });

  test('keeps its first ending under concurrent and later closes with other reasons', async () => {
    const run = await repliedRun(world, DECLARED);
    const reasons = [{ kind: 'timed_out' }, { kind: 'lost' }, { kind: 'cancelled' }, { kind: 'ended' }] as const;
    const endings = await Promise.all(reasons.map((reason) => acting(run).closeRun({ run: run.id, reason })));
    expect(new Set(endings).size).toBe(1);
    expect(await acting(run).closeRun({ run: run.id, reason: { kind: 'lost' } })).toBe(endings[0]);
    expect(await leftBy(run)).toMatchObject({
      ending: endings[0],
      endedEvents: 1,
      steps: ['reply=not_reached', 'memory=not_reached'],
    });
  });
});

describe('the rights and gates of the reply are checked again when a step takes effect', () => {
  const own = () => ({ roomId: world.roomId, agentId: world.scribe.id });
  const changes: [string, string, (undo: boolean) => Promise<unknown>][] = [
    ['a right refused', 'right_revoked', (undo) => setRights(undo ? 'go' : 'refuse')],
    ['a right held', 'right_revoked', (undo) => setRights(undo ? 'go' : 'hold')],
    [
      'the agent removed from the roster',
      'not_a_member',
      (undo) => world.db.roomAgent.updateMany({ where: own(), data: { removedAt: undo ? null : new Date() } }),
    ],
    [
      'the company left the room',
      'not_a_member',
      (undo) =>
        world.db.roomMember.updateMany({
          where: { roomId: world.roomId, companyId: world.host.id },
          data: { leftAt: undo ? null : new Date() },
        }),
    ],
    [
      'the room closed',
      'room_closed',
      (undo) => world.db.room.update({ where: { id: world.roomId }, data: { closedAt: undo ? null : new Date() } }),
    ],
  ];
  const setRights = (right: string) =>
    world.db.roomAgent.updateMany({ where: own(), data: { rightReply: right, rightMemory: right } });

  test.each(changes)('%s before the reply: the reply and every later step are superseded', async (_, code, change) => {
    const run = await repliedRun(world, DECLARED);
    await change(false);
    expect(await acting(run).postReply({ run: run.id, step: 'reply' })).toEqual({
      state: 'superseded',
      ending: 'not_allowed',
    });
    await change(true);
    expect(await leftBy(run)).toMatchObject({
      texts: [],
      lines: 0,
      steps: ['reply=superseded', 'memory=superseded'],
      endedEvents: 1,
    });
    expect(await world.db.run.findUniqueOrThrow({ where: { id: run.id } })).toMatchObject({
      ending: 'not_allowed',
      code,
    });
  });

  test.each(changes)(
    '%s after the reply: the later step is superseded, and the run has replied',
    async (_, code, change) => {
      const run = await repliedRun(world, DECLARED);
      await acting(run).postReply({ run: run.id, step: 'reply' });
      await change(false);
      expect(await acting(run).writeMemory({ run: run.id, step: 'memory' })).toEqual({
        state: 'superseded',
        ending: 'replied',
      });
      await change(true);
      expect(await leftBy(run)).toMatchObject({
        texts: ['a reply'],
        lines: 0,
        steps: ['reply=done', 'memory=superseded'],
      });
      expect(await world.db.runStep.findFirstOrThrow({ where: { runId: run.id, stepKey: 'memory' } })).toMatchObject({
        code,
      });
    },
  );

  test('a step sees a right that was revoked while the step waited', async () => {
    const run = await repliedRun(world, { reply: 'too late' });
    const revoking = await holdTransaction(
      world.db,
      (tx) =>
        tx.$executeRaw`UPDATE room_agents SET right_reply = 'refuse' WHERE room_id = ${world.roomId} AND agent_id = ${world.scribe.id}`,
    );
    const posting = acting(run).postReply({ run: run.id, step: 'reply' });
    await untilWaiting(world.db);
    await revoking.release();
    expect(await posting).toEqual({ state: 'superseded', ending: 'not_allowed' });
    await setRights('go');
  });

  test('a step is superseded while the declared reply before it is not posted', async () => {
    const run = await repliedRun(world, DECLARED);
    expect(await acting(run).writeMemory({ run: run.id, step: 'memory' })).toEqual({ state: 'superseded' });
    expect(await leftBy(run)).toMatchObject({ lines: 0, ending: null });
  });
});

test('an update of a task of another room or agent, or of no task, is superseded; only the own task changes', async () => {
  const elsewhere = await openRoom(world, { name: 'elsewhere', modelUrl: MODEL_URL });
  const foreign = await elsewhere.sendTask('not yours');
  const scouts = await world.sendTask('scout', "scout's own");
  const mine = await world.sendTask('scribe', 'the right one');
  const untouched = () =>
    world.db.task.findMany({ where: { id: { in: [foreign.taskId, scouts.taskId] } }, orderBy: { id: 'asc' } });
  const [before, events] = [await untouched(), await world.db.roomEvent.count({ where: { roomId: elsewhere.id } })];
  const tasks = ['0', newId('task'), foreign.taskId, scouts.taskId, mine.taskId];
  const run = await repliedRun(world, {
    reply: 'all done',
    task_updates: tasks.map((task) => ({ task, state: 'done', result: 'so it is' })),
    tasks_to_send: [{ to: 'unknown', goal: 'g', acceptance_criteria: [], priority: 'normal', deadline: null }],
  });
  await acting(run).postReply({ run: run.id, step: 'reply' });
  for (const [index] of tasks.entries())
    await acting(run).updateTask({ run: run.id, step: `task_update:${index + 1}` });
  expect(await acting(run).sendTask({ run: run.id, step: 'task_send:1' })).toEqual({
    state: 'refused',
    ending: 'replied',
  });
  const steps = await world.db.runStep.findMany({ where: { runId: run.id }, orderBy: { position: 'asc' } });
  expect(steps.map((step) => [step.state, step.code])).toEqual([
    ['done', null],
    ['superseded', 'not_found'],
    ['superseded', 'not_found'],
    ['superseded', 'not_found'],
    ['superseded', 'not_yours'],
    ['done', null],
    ['refused', 'not_found'],
  ]);
  expect(await world.db.task.findUniqueOrThrow({ where: { id: mine.taskId } })).toMatchObject({
    state: 'done',
    result: 'so it is',
  });
  expect(await untouched()).toEqual(before);
  expect(await world.db.roomEvent.count({ where: { roomId: elsewhere.id } })).toBe(events);
});

test('no failure that an activity reports to a history holds content', async () => {
  const logged: unknown[] = [];
  const failing = translateFailures(
    'postReply',
    () => Promise.reject(new TypeError('canary')),
    (each) => logged.push(each.error),
  );
  const failure: unknown = await failing().catch((error: unknown) => error);
  expect(failure).toMatchObject({ type: 'Bug', nonRetryable: true });
  expect(
    `${JSON.stringify(failure)} ${String((failure as Error).stack)} ${String((failure as Error).cause)}`,
  ).not.toContain('canary');
  expect(String(logged[0])).toContain('canary');
});

test('a step before a stored reply is an internal error', async () => {
  const run = await openRun(world);
  await claimRequest(world.db, run.execution, run.id, renderContext);
  await expect(acting(run).postReply({ run: run.id, step: 'reply' })).rejects.toMatchObject({ type: 'Bug' });
  expect(await leftBy(run)).toMatchObject({ steps: [], ending: null });
});
