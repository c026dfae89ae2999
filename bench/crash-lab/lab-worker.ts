// A worker process of the lab: the worker of production with other activities in it (ways 1 to 3) or seams around its own
// (ways 4 and 5), so that options and time-outs can't differ. It dies where its parent says.
//
//   LAB_WAY     which of the five
//   LAB_BUNDLE  the workflow bundle
//   LAB_DEATHS  the file to which it writes where jobs stand and when it dies

import type { InjectedSinks } from '@temporalio/worker';
import type { Activities, ActivityDeps } from '../../activities';
import { runWorkerProcess } from '../../worker/process-main';
import type { Seams } from '../../worker/service';
import type { CrashSinks } from '../../test/support/crash-interceptor';
import * as lab from './lab-activities';
import { readLabBundle } from './lab-bundle';
import type { BeginMessage, StateMessage } from './messages';
import * as room from './room-points';
import { createPass, type Pass } from './traps';
import { warmUp } from './warm-up';
import { WAYS, type Way } from './ways';

async function main(): Promise<void> {
  const way = WAYS.find((known) => known === process.env['LAB_WAY']);
  if (way === undefined) throw new Error(`LAB_WAY is none of ${WAYS.join(', ')}`);
  const pass = createPass(process.env['LAB_DEATHS'] ?? '');
  const point = way === 'stop' || way === 'resume' ? room.acknowledgedPoint : lab.acknowledgedPoint;
  const sinks: InjectedSinks<CrashSinks> = {
    crash: {
      acknowledged: {
        fn: async (info, activity) => {
          const at = point(activity);
          if (at !== undefined) await pass(at, info.workflowId);
        },
        callDuringReplay: false,
      },
    },
  };
  const bundle = await readLabBundle(process.env['LAB_BUNDLE'] ?? '');
  await warmUp(process.env['DATABASE_URL'] ?? '');
  await waitForBegin();
  await runWorkerProcess(process.env, { ...seamsOf(way, pass), bundle, sinks });
}

/** A spare stands by with its code loaded, as another worker of a deployment would. */
function waitForBegin(): Promise<void> {
  const forsaken = (): void => process.exit(0);
  process.once('disconnect', forsaken);
  return new Promise((resolve) => {
    process.on('message', (message) => {
      if ((message as Partial<BeginMessage>).type !== 'begin') return;
      process.off('disconnect', forsaken);
      resolve();
    });
    process.send?.({ type: 'loaded' } satisfies StateMessage);
  });
}

function seamsOf(way: Way, pass: Pass): Seams {
  let deps: ActivityDeps | undefined;
  const own = (create: (given: ActivityDeps, pass: Pass) => object): Seams => ({
    deps: (given) => (deps = given),
    activities: () => {
      if (deps === undefined) throw new Error('the activities are built from what the worker gives them');
      // The seam is typed for stand-ins of our own activities; a worker takes any.
      return create(deps, pass) as unknown as Activities;
    },
  });
  switch (way) {
    case 'top':
      return own(lab.createTopActivities);
    case 'replay':
      return own(lab.createReplayActivities);
    case 'record':
      return own(lab.createRecordActivities);
    case 'stop':
    case 'resume':
      return {
        deps: (given) => room.watchDeps(given, pass),
        activities: (activities) => room.watchActivities(activities, pass),
      };
  }
}

main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
