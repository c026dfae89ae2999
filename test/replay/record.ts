// Records one history per ending on a real server, for the present version: `npm run record-histories`. Commit what changed
// together with the change of the workflow that made it necessary, and never without saying why old histories still
// replay. Those of an earlier version are never recorded again: its runs may still be open.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { closeAsLost } from '../../prisma/store/runs/fence';
import { decideHeldAction, expireHeldActions } from '../../prisma/store/runs/held-actions/decide';
import { PRESETS } from '../../prisma/store/rooms/roster';
import type { Decision, OnCrash, Rights, RunTimeouts } from '../../workflows/contract';
import { wakeWorkflowId } from '../../workflows/contract';
import { STATE_QUERY, type RunProgress } from '../../workflows/messages';
import { failingIn } from '../support/faults';
import { closedRun, startTestWorker, until } from '../support/runs';
import { answer, startScriptedModel, type ScriptedAnswer } from '../support/scripted-model-server';
import { createWorld } from '../support/world';
import { HISTORIES, VERSION } from './versions';

const FOLDER = join(HISTORIES, VERSION);

const EVERYTHING = answer.reply({
  reply: 'Done.',
  memory: { category: 'fact', content: 'It is done.', tags: [], visibility: 'shared' },
  tasks_to_send: [{ to: 'scout', goal: 'Check it.', acceptance_criteria: [], priority: 'normal', deadline: null }],
});

interface Recording {
  readonly name: string;
  readonly answers: readonly ScriptedAnswer[];
  /** Null: it is still open when it is recorded. */
  readonly ending: string | null;
  readonly onCrash?: OnCrash;
  readonly rights?: Rights;
  readonly failIn?: string;
  readonly timeouts?: Partial<RunTimeouts>;
  readonly cancel?: boolean;
  readonly terminate?: boolean;
  /** What is decided, one after the other, once the run is parked. Empty: it is recorded as it waits. */
  readonly decisions?: readonly (readonly [step: string, decision: Decision])[];
  /** Once it is parked, the time of all that is held is over. */
  readonly expires?: boolean;
}

const HOLD_SEND: Rights = { ...PRESETS.autonomous, task_send: 'hold' };

const RECORDINGS: readonly Recording[] = [
  { name: 'replied', answers: [answer.reply('Hello.')], ending: 'replied' },
  { name: 'replied-with-memory-and-task', answers: [EVERYTHING], ending: 'replied' },
  {
    name: 'replied-at-the-second-request',
    answers: [answer.error(503, null), answer.reply('Hello.')],
    ending: 'replied',
  },
  { name: 'silent', answers: [answer.reply({ reply: null })], ending: 'silent' },
  { name: 'refused-by-the-provider', answers: [answer.error(401, 'invalid_api_key')], ending: 'refused' },
  { name: 'busy', answers: [answer.error(429, null, { 'retry-after': '60' })], ending: 'busy' },
  { name: 'failed-reply-invalid', answers: [answer.reply('{"reply": 7}')], ending: 'failed' },
  {
    name: 'not-allowed',
    answers: [EVERYTHING],
    ending: 'not_allowed',
    rights: { ...PRESETS.autonomous, reply: 'refuse' },
  },
  { name: 'stopped-at-the-reply', answers: [EVERYTHING], ending: 'failed', failIn: 'postReply' },
  { name: 'partial', answers: [EVERYTHING], ending: 'partial', failIn: 'writeMemory' },
  {
    name: 'resumed-and-timed-out',
    answers: [EVERYTHING],
    ending: 'timed_out',
    onCrash: 'resume',
    failIn: 'writeMemory',
    timeouts: { limitMs: 4_000 },
  },
  { name: 'cancelled', answers: [answer.hold()], ending: 'cancelled', cancel: true },
  { name: 'lost', answers: [answer.hold()], ending: 'lost', terminate: true },
  { name: 'parked', answers: [EVERYTHING], ending: null, rights: HOLD_SEND, decisions: [] },
  {
    name: 'parked-and-cancelled',
    answers: [EVERYTHING],
    ending: 'cancelled',
    rights: HOLD_SEND,
    decisions: [],
    cancel: true,
  },
  {
    name: 'held-task-approved',
    answers: [EVERYTHING],
    ending: 'replied',
    rights: HOLD_SEND,
    decisions: [['task_send:1', 'approve']],
  },
  {
    name: 'held-task-declined',
    answers: [EVERYTHING],
    ending: 'replied',
    rights: HOLD_SEND,
    decisions: [['task_send:1', 'decline']],
  },
  {
    name: 'held-reply-declined',
    answers: [EVERYTHING],
    ending: 'declined',
    rights: PRESETS.supervised,
    decisions: [['reply', 'decline']],
  },
  {
    name: 'held-reply-expired',
    answers: [EVERYTHING],
    ending: 'expired',
    rights: PRESETS.supervised,
    decisions: [],
    expires: true,
  },
  {
    name: 'all-held-and-decided-one-by-one',
    answers: [EVERYTHING],
    ending: 'replied',
    rights: PRESETS.supervised,
    decisions: [
      ['task_send:1', 'approve'],
      ['reply', 'approve'],
      ['memory', 'decline'],
    ],
  },
];

test.each(RECORDINGS)('records $name', async (recording) => {
  const model = await startScriptedModel();
  const world = await createWorld({
    modelUrl: model.url,
    onCrash: recording.onCrash ?? 'stop',
    rights: recording.rights ?? PRESETS.autonomous,
  });
  model.script(...recording.answers);
  const unreachable = (): Error => Object.assign(new Error('gone'), { code: 'ECONNRESET' });
  const worker = await startTestWorker(world, {
    taskQueue: 'durable-room',
    identity: 'worker',
    ...(recording.timeouts === undefined ? {} : { timeouts: recording.timeouts }),
    ...(recording.failIn === undefined ? {} : { deps: { db: failingIn(world.db, recording.failIn, unreachable) } }),
  });
  try {
    const posted = await world.post('@scribe please');
    const workflowId = wakeWorkflowId(world.scribe.id, posted.messageId);
    const first = worker.client.workflow.getHandle(workflowId);
    const says = async (at: string): Promise<boolean> =>
      (await first.query<RunProgress>(STATE_QUERY).catch(() => null))?.at.startsWith(at) ?? false;
    if (recording.decisions) await until('the run to park', () => says('parked'));
    for (const [step, decision] of recording.decisions ?? []) {
      const { id, sha256, companyId } = await world.db.heldAction.findFirstOrThrow({ where: { stepKey: step } });
      const by = { keyId: 'key', name: 'Ada', companyId };
      await world.db.transaction((tx) => decideHeldAction(tx, by, id, { decision, hash: sha256 }));
      // Each in a workflow task of its own.
      const where = { heldActionId: id, deliveredAt: null };
      await until('the decision to be told', async () => (await world.db.runSignal.count({ where })) === 0);
    }
    if (recording.expires) {
      await world.db.$executeRaw`UPDATE held_actions SET expires_at = clock_timestamp()`;
      await expireHeldActions(world.db, 10);
    }
    if (recording.cancel) {
      await model.waitForRequests(1);
      await first.cancel();
    }
    if (recording.ending === null) {
      write(recording.name, await first.fetchHistory());
      return;
    }
    if (recording.terminate) {
      await model.waitForRequests(1);
      await worker.client.workflow.getHandle(workflowId).terminate('by hand');
      const { id } = await world.db.run.findFirstOrThrow({ where: { messageId: posted.messageId } });
      await closeAsLost(world.db, id);
    }
    const run = await closedRun(world.db, posted.messageId, world.scribe.id);
    expect(run.ending).toBe(recording.ending);
    const handle = worker.client.workflow.getHandle(workflowId, run.temporalRunId as string);
    if (!recording.terminate) await handle.result();
    write(recording.name, await handle.fetchHistory());
  } finally {
    await worker.stop();
    await world.close();
    await model.stop();
  }
});

function write(name: string, history: Parameters<typeof historyToJSON>[0]): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, `${name}.json`), `${historyToJSON(history)}\n`);
}
