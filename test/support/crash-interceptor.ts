// A workflow interceptor in the bundle of crash-worker. Between two steps, it reports the activity whose result Temporal has.
//
// Sinks run after an activation and before its commands are sent. A process that stops in the sink stops when Temporal has
// the result of the last activity and does not know the next command (an activity or the end of the workflow).

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
