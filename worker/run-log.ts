// A run's way in the worker's log: one line when it is claimed, one when it ends, each with the ids to go on with, in
// Temporal, in the ledger and in the API. Ids and words of closed sets only.

import { activityInfo } from '@temporalio/activity';
import type { Logger } from 'pino';
import type { Activities } from '../activities';

/** The same activities; what became of each is logged. */
export function logRuns(activities: Activities, log: Logger): Activities {
  const logged = Object.entries(activities).map(([activity, work]) => {
    const call = work as (input: Input) => Promise<unknown>;
    return [
      activity,
      async (input: Input) => {
        const result = await call(input);
        const ids = { ...idsOf(input), ...executionIds(), activity };
        const ending = endingOf(activity, result);
        if (ending === null) log.debug(ids, 'activity done');
        else log.info({ ...ids, ending }, 'run ended');
        return result;
      },
    ];
  });
  return Object.fromEntries(logged) as Activities;
}

/** The ids by which Temporal knows the execution that this activity belongs to. */
export function executionIds(): Record<string, unknown> {
  const { workflowExecution, attempt } = activityInfo();
  return { workflow: workflowExecution?.workflowId, execution: workflowExecution?.runId, attempt };
}

interface Input {
  readonly run?: string;
  readonly step?: string;
}

function idsOf({ run, step }: Input): Record<string, string> {
  return { ...(run === undefined ? {} : { run }), ...(step === undefined ? {} : { step }) };
}

/** The ending that an activity's answer tells of, if it does. */
function endingOf(activity: string, result: unknown): string | null {
  if (activity === 'closeRun') return String(result);
  const { ending } = (result ?? {}) as { ending?: string };
  return ending ?? null;
}
