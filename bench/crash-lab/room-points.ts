// The kill points of ways 4 and 5: hooks around the product's activities, which are not changed.

import { Context } from '@temporalio/activity';
import type { Activities, ActivityDeps } from '../../activities';
import type { Database } from '../../prisma/store/db/database';
import { InterceptedDatabase } from '../../test/support/intercepted-database';
import type { Point, Step } from './points';
import { currentWorkflowId, watchRequests, type Pass } from './traps';

/** The step of each activity. A model call starts with the read; closing is not a step of the job. */
const STEP_OF: Readonly<Record<string, Step>> = {
  claimMessage: 'claim',
  callModel: 'read',
  postReply: 'post',
  writeMemory: 'memory',
  sendTask: 'task',
};

/** The step whose result Temporal has after it stored this activity's result. */
const ACKNOWLEDGED: Readonly<Record<string, Step>> = { ...STEP_OF, callModel: 'model' };

export function watchDeps(deps: ActivityDeps, pass: Pass): ActivityDeps {
  const requestReply = watchRequests(deps.requestReply, pass);
  return {
    ...deps,
    db: watchTransactions(deps.db, pass),
    requestReply: async (...args) => {
      await pass('read:after', currentWorkflowId());
      return requestReply(...args);
    },
  };
}

/** The first transaction of each activity is the step. Later ones (storing the answer, counting) have no kill points. */
function watchTransactions(db: Database, pass: Pass): Database {
  const begun = new WeakSet<Context>();
  return new InterceptedDatabase(db, async (work, run) => {
    const context = Context.current();
    const step = begun.has(context) ? undefined : STEP_OF[context.info.activityType];
    begun.add(context);
    if (step === undefined) return run(work);
    const result = await run(async (tx) => {
      const worked = await work(tx);
      await pass(`${step}:inside`, currentWorkflowId());
      return worked;
    });
    await pass(`${step}:between`, currentWorkflowId());
    return result;
  });
}

export function watchActivities(activities: Activities, pass: Pass): Activities {
  const watched = Object.entries(activities).map(([name, work]) => [
    name,
    async (input: never) => {
      const step = STEP_OF[name];
      if (step !== undefined) await pass(`${step}:before`, currentWorkflowId());
      return work(input);
    },
  ]);
  return Object.fromEntries(watched) as Activities;
}

/** The kill point after Temporal stored this activity's result and before the next command; undefined if there is none. */
export function acknowledgedPoint(activity: string): Point | undefined {
  const step = ACKNOWLEDGED[activity];
  return step === undefined ? undefined : `${step}:after`;
}
