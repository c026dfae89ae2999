// What a worker process did, as Prometheus metrics: what it started, what its activities came to, what its models used.
// No ids, names or texts are labels. What the store wrote is counted in worker/telemetry/store-metrics.

import { ApplicationFailure } from '@temporalio/activity';
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client';
import type { Activities, ActivityDeps } from '../activities';
import { countStore, gaugeStanding } from './telemetry/store-metrics';
import type { Database } from '../prisma/store/db/database';
import { FAILURE, type ClaimResult } from '../workflows/contract';
import type { DispatchPass } from './dispatcher';

export interface WorkerMetrics {
  readonly registry: Registry;
  dispatched(pass: DispatchPass): void;
  /** The same activities, counted. */
  countActivities(activities: Activities): Activities;
  /** The same request, counted with the tokens that its answer names. */
  countRequests(requestReply: ActivityDeps['requestReply']): ActivityDeps['requestReply'];
  /** Nothing is counted any more. */
  stop(): void;
}

/** From a claim in a millisecond to a model that takes its whole time. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];

export function createWorkerMetrics(db: Database): WorkerMetrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  gaugeStanding(registry, db);
  const stop = countStore(registry);

  const starts = new Counter({
    name: 'durable_room_wakes_dispatched_total',
    help: 'Wakes whose workflow was started, and starts that failed and are repeated.',
    labelNames: ['outcome'],
    registers,
  });
  const claims = new Counter({
    name: 'durable_room_claims_total',
    help: 'Answers to claims: granted, closed (a gate had shut, or the run was closed already), refused with why.',
    labelNames: ['outcome', 'why'],
    registers,
  });
  const fenced = new Counter({
    name: 'durable_room_fenced_total',
    help: 'Activities that the fence stopped: the run is closed, or another execution owns it.',
    labelNames: ['activity', 'why'],
    registers,
  });
  const seconds = new Histogram({
    name: 'durable_room_activity_seconds',
    help: 'What one attempt of an activity took.',
    labelNames: ['activity', 'outcome'],
    buckets: SECONDS,
    registers,
  });
  const requests = new Counter({
    name: 'durable_room_model_requests_total',
    help: 'Model requests by what came of them.',
    labelNames: ['protocol', 'outcome'],
    registers,
  });
  const tokens = new Counter({
    name: 'durable_room_model_tokens_total',
    help: 'Tokens that providers named in their answers.',
    labelNames: ['protocol', 'direction'],
    registers,
  });

  const counted = <Args extends unknown[], Result>(
    activity: string,
    work: (...args: Args) => Promise<Result>,
  ): ((...args: Args) => Promise<Result>) => {
    return async (...args) => {
      const done = seconds.startTimer({ activity });
      try {
        const result = await work(...args);
        done({ outcome: 'done' });
        return result;
      } catch (error) {
        const why = fencedWhy(error);
        done({ outcome: why === null ? 'failed' : 'fenced' });
        if (why !== null) fenced.inc({ activity, why });
        throw error;
      }
    };
  };

  return {
    registry,
    dispatched: ({ started, failed }) => {
      starts.inc({ outcome: 'started' }, started);
      starts.inc({ outcome: 'failed' }, failed);
    },
    countActivities: (activities) => {
      const all = Object.entries(activities).map(([name, work]) => [
        name,
        counted(name, work as (...args: unknown[]) => Promise<unknown>),
      ]);
      const wrapped = Object.fromEntries(all) as Activities;
      return {
        ...wrapped,
        claimMessage: async (input) => {
          const claim = await wrapped.claimMessage(input);
          claims.inc({ outcome: claim.status, why: whyOf(claim) });
          return claim;
        },
      };
    },
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

function whyOf(claim: ClaimResult): string {
  return claim.status === 'refused' ? claim.why : '';
}

/** Why the fence stopped an activity, or null where it did not. */
function fencedWhy(error: unknown): 'closed' | 'not_mine' | null {
  if (!(error instanceof ApplicationFailure) || error.type !== FAILURE.fenced) return null;
  return error.message.endsWith('not_mine') ? 'not_mine' : 'closed';
}
