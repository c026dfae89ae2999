// Each way that a run can go, from its message to its ending, on a real Temporal. The workflow tests run them; record.ts
// records them as the histories that every later version must replay.

import { closeAsLost } from '../../prisma/store/runs/fence';
import { decideHeldAction, expireHeldActions } from '../../prisma/store/runs/held-actions/decide';
import { PRESETS } from '../../prisma/store/rooms/roster';
import type { Decision, OnCrash, Rights, RunTimeouts } from '../../workflows/contract';
import { wakeWorkflowId } from '../../workflows/contract';
import { STATE_QUERY, type RunProgress } from '../../workflows/messages';
import { until } from './run-waits';
import type { TestWorker } from './runs';
import { answer, type ScriptedAnswer, type ScriptedModel } from './scripted-model-server';
import type { World } from './world';

const EVERYTHING = answer.reply({
  reply: 'Done.',
  memory: { category: 'fact', content: 'It is done.', tags: [], visibility: 'shared' },
  tasks_to_send: [{ to: 'scout', goal: 'Check it.', acceptance_criteria: [], priority: 'normal', deadline: null }],
});

export interface Way {
  readonly name: string;
  readonly answers: readonly ScriptedAnswer[];
  /** Null: the run stays open. */
  readonly ending: string | null;
  readonly onCrash?: OnCrash;
  readonly rights?: Rights;
  /** The activity whose transactions fail. */
  readonly failIn?: string;
  readonly timeouts?: Partial<RunTimeouts>;
  readonly cancel?: boolean;
  readonly terminate?: boolean;
  /** The decisions after the run is parked, one after the other. Empty: the run only has to park. */
  readonly decisions?: readonly (readonly [step: string, decision: Decision])[];
  /** All held actions expire after the run is parked. */
  readonly expires?: boolean;
}

const HOLD_SEND: Rights = { ...PRESETS.autonomous, task_send: 'hold' };

export const WAYS: readonly Way[] = [
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

/** The set-up of a way. The world must have the `rights` and `onCrash` of the way. */
export interface WaySetup {
  readonly model: ScriptedModel;
  readonly world: World;
  readonly worker: Pick<TestWorker, 'client'>;
}

/** Posts a message and acts on its run as the way describes. Afterwards the run ends by itself or stays parked. */
export async function runWay({ model, world, worker }: WaySetup, way: Way): Promise<{ messageId: string }> {
  const { db } = world;
  const sent = model.requests.length;
  model.script(...way.answers);
  const { messageId } = await world.post('@scribe please');
  const wake = { messageId, agentId: world.scribe.id };
  const workflow = worker.client.workflow.getHandle(wakeWorkflowId(wake.agentId, messageId));
  const isAt = async (at: string): Promise<boolean> =>
    (await workflow.query<RunProgress>(STATE_QUERY).catch(() => null))?.at.startsWith(at) ?? false;
  if (way.decisions) await until('the run to park', () => isAt('parked'));
  for (const [stepKey, decision] of way.decisions ?? []) {
    const { id, sha256, companyId } = await db.heldAction.findFirstOrThrow({ where: { stepKey, run: wake } });
    const by = { keyId: 'key', name: 'Ada', companyId };
    await db.transaction((tx) => decideHeldAction(tx, by, id, { decision, hash: sha256 }));
    // Each decision is delivered in a workflow task of its own.
    const where = { heldActionId: id, deliveredAt: null };
    await until('the decision to be delivered', async () => (await db.runSignal.count({ where })) === 0);
  }
  if (way.expires) {
    await db.$executeRaw`
      UPDATE held_actions SET opened_at = opened_at - interval '80 hours', expires_at = clock_timestamp()
      WHERE run_id IN (SELECT id FROM runs WHERE message_id = ${messageId} AND agent_id = ${wake.agentId})`;
    await expireHeldActions(db, 10);
  }
  if (way.cancel) {
    await model.waitForRequests(sent + 1);
    await workflow.cancel();
  }
  if (way.terminate) {
    await model.waitForRequests(sent + 1);
    await workflow.terminate('by hand');
    const { id } = await db.run.findFirstOrThrow({ where: wake });
    await closeAsLost(db, id);
  }
  return { messageId };
}
