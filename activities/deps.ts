// What activities work with. Built once by the worker's main; fakes need no module magic.

import { activityInfo } from '@temporalio/activity';
import type { SecretBox } from '../workflows/policy/secret-box';
import type { Execution } from '../prisma/store/runs/locked-run';
import type { Database } from '../prisma/store/db/database';
import type { RunTimeouts } from '../workflows/contract';
import type { FailureLog } from './failure';
import type { requestReply } from './model/provider';

export interface ActivityDeps {
  readonly db: Database;
  readonly secretBox: SecretBox;
  readonly requestReply: typeof requestReply;
  readonly timeouts: RunTimeouts;
  /** How long somebody has to decide a held action. */
  readonly holdExpiryMs: number;
  /** `host:port` of model servers inside our network that the operator allows owners to name. */
  readonly allowedModelHosts: readonly string[];
  /** Most tokens of what a run is shown. */
  readonly contextTokens: number;
  readonly logFailure: FailureLog;
  /** Told of every claim that was granted, with the ids that a history does not hold. */
  readonly onClaim?: (ids: Readonly<Record<'run' | 'wake' | 'room' | 'agent' | 'message', string>>) => void;
}

/** The execution that this activity attempt belongs to. After a reset its run id is a new one, and the fence sees it. */
export function currentExecution(): Execution {
  const { workflowExecution } = activityInfo();
  if (!workflowExecution) throw new Error('this activity runs outside a workflow');
  return { workflowId: workflowExecution.workflowId, temporalRunId: workflowExecution.runId };
}
