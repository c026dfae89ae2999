// The dependencies of activities. Built once by the worker's main; tests pass fakes.

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
  /** The time in which a held action can be decided. */
  readonly holdExpiryMs: number;
  /** `host:port` of model servers inside our network that the operator allows owners to name. */
  readonly allowedModelHosts: readonly string[];
  /** The token limit of the rendered context. */
  readonly contextTokens: number;
  readonly logFailure: FailureLog;
  /** Called for each granted claim, with the ids that a history does not hold. */
  readonly onClaim?: (ids: Readonly<Record<'run' | 'wake' | 'room' | 'agent' | 'message', string>>) => void;
}

/** The execution of this activity attempt. A reset gives it a new run id, which the fence detects. */
export function currentExecution(): Execution {
  const { workflowExecution } = activityInfo();
  if (!workflowExecution) throw new Error('this activity runs outside a workflow');
  return { workflowId: workflowExecution.workflowId, temporalRunId: workflowExecution.runId };
}
