// A run in the worker's log: one line when it is claimed and one when it ends, with the ids by which to find it in Temporal,
// in the ledger and in the API. Lines hold ids and words of closed sets only.

import { activityInfo, type Info } from '@temporalio/activity';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { Logger } from 'pino';

/** Logs every finished activity, and the ending of a run. */
export function logActivity(log: Logger): ActivityInterceptorsFactory {
  return ({ info }) => ({
    inbound: {
      async execute(input, next) {
        const result = await next(input);
        const activity = info.activityType;
        const ids = { ...runIds(input.args[0]), ...executionIds(info), activity };
        const ending = endingOf(activity, result);
        if (ending === null) log.debug(ids, 'activity done');
        else log.info({ ...ids, ending }, 'run ended');
        return result;
      },
    },
  });
}

/** The ids by which Temporal knows the execution of an activity; without an argument, of the current one. */
export function executionIds({ workflowExecution, attempt }: Info = activityInfo()): Record<string, unknown> {
  return { workflow: workflowExecution?.workflowId, execution: workflowExecution?.runId, attempt };
}

function runIds(input: unknown): Record<string, string> {
  const { run, step } = (input ?? {}) as { run?: string; step?: string };
  return { ...(run === undefined ? {} : { run }), ...(step === undefined ? {} : { step }) };
}

/** The ending of the run in an activity's result; null if the run did not end. */
function endingOf(activity: string, result: unknown): string | null {
  if (activity === 'closeRun') return String(result);
  const { ending } = (result ?? {}) as { ending?: string };
  return ending ?? null;
}
