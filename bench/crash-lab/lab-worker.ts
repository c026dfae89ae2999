// A worker process of the lab: the product's worker with other activities (ways 1 to 3) or with hooks around its own activities
// (ways 4 and 5), so that options and timeouts are the same. It kills itself at the points that its parent names.
//
//   LAB_WAY     one of the five ways
//   LAB_BUNDLE  path of the workflow bundle
//   LAB_DEATHS  file for the reached kill points and the time of the kill

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
  if (way === undefined) throw new Error(`LAB_WAY must be one of ${WAYS.join(', ')}`);
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

/** A spare worker waits here with its code loaded, like another worker of a deployment. */
function waitForBegin(): Promise<void> {
  const exitWithParent = (): void => process.exit(0);
  process.once('disconnect', exitWithParent);
  return new Promise((resolve) => {
    process.on('message', (message) => {
      if ((message as Partial<BeginMessage>).type !== 'begin') return;
      process.off('disconnect', exitWithParent);
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
      if (deps === undefined) throw new Error('the worker must set its dependencies before it builds activities');
      // The option is typed for the product's activities; a worker accepts any activities.
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
