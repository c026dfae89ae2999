// Bundled beside the workflow by crash-worker: says, between two steps, which activity Temporal has the result of.
//
// Sinks run after an activation and before its commands are sent. Who stops there stops with the last activity
// acknowledged and the next one, or the end of the workflow, unknown to everybody.

import { DECISION_SIGNAL } from '../../workflows/messages';
import { proxySinks, type Sinks, type WorkflowInterceptorsFactory } from '@temporalio/workflow';

export interface CrashSinks extends Sinks {
  crash: { acknowledged(activity: string): void };
}

export const interceptors: WorkflowInterceptorsFactory = () => {
  const { crash } = proxySinks<CrashSinks>();
  let last: string | null = null;
  const sayLast = (): void => {
    if (last !== null) crash.acknowledged(last);
    last = null;
  };
  return {
    inbound: [
      {
        async execute(input, next) {
          const result = await next(input);
          sayLast();
          return result;
        },
        async handleSignal(input, next) {
          await next(input);
          if (input.signalName === DECISION_SIGNAL) crash.acknowledged('decision');
        },
      },
    ],
    outbound: [
      {
        async scheduleActivity(input, next) {
          sayLast();
          const result = await next(input);
          last = input.activityType;
          return result;
        },
      },
    ],
  };
};
