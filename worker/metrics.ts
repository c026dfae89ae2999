// Prometheus metrics of what a worker process did: starts, activities, model requests. Labels hold no ids, names or texts.
// worker/telemetry/store-metrics.ts counts what the store wrote.

import { ApplicationFailure } from '@temporalio/activity';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client';
import type { ActivityDeps } from '../activities';
import { countStore, gaugeBacklog } from './telemetry/store-metrics';
import type { Database } from '../prisma/store/db/database';
import { FAILURE, type ClaimResult } from '../workflows/contract';
import type { DispatchPass } from './dispatcher';

export interface WorkerMetrics {
  readonly registry: Registry;
  countDispatched(pass: DispatchPass): void;
  /** Counts and times every attempt of an activity, and the results of claims. */
  readonly countActivity: ActivityInterceptorsFactory;
  /** The same function, with its requests and the tokens in its answers counted. */
  countRequests(requestReply: ActivityDeps['requestReply']): ActivityDeps['requestReply'];
  /** Stops counting what the store writes. */
  stop(): void;
}

/** From a claim, which takes a millisecond, to a model call that uses its whole time limit. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

export function createWorkerMetrics(db: Database): WorkerMetrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  gaugeBacklog(registry, db);
  const stop = countStore(registry);

  const starts = new Counter({
    name: 'durable_room_wakes_dispatched_total',
    help: 'Workflow starts of wakes, by outcome: started, or failed and repeated.',
    labelNames: ['outcome'],
    registers,
  });
  const claims = new Counter({
    name: 'durable_room_claims_total',
    help: 'Results of claims: granted, closed (suppressed, or the run is closed), or refused with the reason in "why".',
    labelNames: ['outcome', 'why'],
    registers,
  });
  const fenced = new Counter({
    name: 'durable_room_fenced_total',
    help: 'Activity attempts that the fence refused, because the run is closed or another execution owns it.',
    labelNames: ['activity', 'why'],
    registers,
  });
  const seconds = new Histogram({
    name: 'durable_room_activity_seconds',
    help: 'Duration of activity attempts in seconds, by activity and outcome: done, failed or fenced.',
    labelNames: ['activity', 'outcome'],
    buckets: SECONDS,
    registers,
  });
  const requests = new Counter({
    name: 'durable_room_model_requests_total',
    help: 'Model requests, by protocol and outcome.',
    labelNames: ['protocol', 'outcome'],
    registers,
  });
  const tokens = new Counter({
    name: 'durable_room_model_tokens_total',
    help: 'Tokens that providers reported in their answers, by protocol and direction: input or output.',
    labelNames: ['protocol', 'direction'],
    registers,
  });

  const countActivity: ActivityInterceptorsFactory = ({ info: { activityType: activity } }) => ({
    inbound: {
      async execute(input, next) {
        const done = seconds.startTimer({ activity });
        try {
          const result = await next(input);
          done({ outcome: 'done' });
          if (activity === 'claimMessage') countClaim(result as ClaimResult);
          return result;
        } catch (error) {
          const why = fencedReason(error);
          done({ outcome: why === null ? 'failed' : 'fenced' });
          if (why !== null) fenced.inc({ activity, why });
          throw error;
        }
      },
    },
  });
  const countClaim = (claim: ClaimResult): void =>
    claims.inc({ outcome: claim.status, why: claim.status === 'refused' ? claim.why : '' });

  return {
    registry,
    countDispatched: ({ started, failed }) => {
      starts.inc({ outcome: 'started' }, started);
      starts.inc({ outcome: 'failed' }, failed);
    },
    countActivity,
    countRequests:
      (requestReply) =>
      async (request, ...rest) => {
        const answer = await requestReply(request, ...rest);
        const { protocol } = request.endpoint;
        requests.inc({ protocol, outcome: answer.kind });
        if (answer.kind === 'reply' || answer.kind === 'failed') {
          tokens.inc({ protocol, direction: 'input' }, answer.usage.inputTokens ?? 0);
          tokens.inc({ protocol, direction: 'output' }, answer.usage.outputTokens ?? 0);
        }
        return answer;
      },
    stop,
  };
}

/** Why the fence refused an activity; null for any other error. */
function fencedReason(error: unknown): 'closed' | 'not_mine' | null {
  if (!(error instanceof ApplicationFailure) || error.type !== FAILURE.fenced) return null;
  return error.message.endsWith('not_mine') ? 'not_mine' : 'closed';
}
