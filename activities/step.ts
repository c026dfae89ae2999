// The activities that execute steps: one per kind, each one transaction through the fence.

import { activityInfo } from '@temporalio/activity';
import { executeStepOnce, type StepEffect } from '../prisma/store/runs/fence';
import type { Database } from '../prisma/store/db/database';
import { STEP_KINDS, type StepKind, type StepResult } from '../workflows/contract';
import { STEP_RULES, type StepActivity } from '../workflows/policy/steps';
import { currentExecution, type ActivityDeps } from './deps';
import { postReply } from './post-reply';
import { sendTask, updateTask } from './tasks';
import { writeMemory } from './write-memory';

export interface StepInput {
  readonly run: string;
  /** The step's key in the ledger; it determines the action. */
  readonly step: string;
}

/** What each kind of step does. */
const EFFECTS: { readonly [K in StepKind]: StepEffect<K> } = {
  reply: postReply,
  memory: writeMemory,
  task_update: updateTask,
  task_send: sendTask,
};

type StepActivities = Readonly<Record<StepActivity, (input: StepInput) => Promise<StepResult>>>;

/** The activity of each kind of step. Each executes a step at most once, however often it is called. */
export function createStepActivities({ db }: Pick<ActivityDeps, 'db'>): StepActivities {
  return Object.fromEntries(
    STEP_KINDS.map((kind) => [STEP_RULES[kind].activity, (input: StepInput) => executeStep(db, input, effectOf(kind))]),
  ) as StepActivities;
}

// A workflow passes a step key to the activity of its kind; any other pairing is a bug.
function effectOf(kind: StepKind): StepEffect {
  const effect = EFFECTS[kind] as StepEffect;
  return async (context) => {
    if (context.action.kind !== kind) throw new Error('the step is of another kind');
    return effect(context);
  };
}

/** The share of an attempt's time in which uncommitted work is tried again. The rest is for returning the result. */
const TRYING_SHARE = 0.9;

/** Executes one step through the fence. There may be no second attempt, so it retries while that is safe. */
async function executeStep(db: Database, { run, step }: StepInput, effect: StepEffect): Promise<StepResult> {
  const giveUpAt = Date.now() + activityInfo().startToCloseTimeoutMs * TRYING_SHARE;
  const outcome = await executeStepOnce(db, currentExecution(), run, step, effect, giveUpAt);
  return { state: outcome.state, ...(outcome.ending === null ? {} : { ending: outcome.ending }) };
}
