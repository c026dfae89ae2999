// What every acting step takes, does and gives back.

import { activityInfo } from '@temporalio/activity';
import { executeStepOnce, type StepEffect } from '../prisma/store/runs/fence';
import type { Db } from '../prisma/store/db/transaction';
import type { StepResult } from '../workflows/contract';
import { currentExecution } from './deps';

export interface StepInput {
  readonly run: string;
  /** The step's key in the ledger; which action it carries out follows from it. */
  readonly step: string;
}

/** A step key names the kind of its action, and each kind has its activity. */
export function notThisKind(): Error {
  return new Error('the step is of another kind');
}

/** The part of an attempt's time in which what did not commit is tried again: the rest is for the answer's way back. */
const TRYING_SHARE = 0.9;

/** Carries out one step through the fence. It may be the only attempt there is, so it waits out what it safely can. */
export async function executeStep(db: Db, { run, step }: StepInput, effect: StepEffect): Promise<StepResult> {
  const giveUpAt = Date.now() + activityInfo().startToCloseTimeoutMs * TRYING_SHARE;
  const outcome = await executeStepOnce(db, currentExecution(), run, step, effect, giveUpAt);
  return { state: outcome.state, ...(outcome.ending === null ? {} : { ending: outcome.ending }) };
}
