// The parts of the time between a wake and its reply: the median of each part, from times in histories and in Postgres, which
// all come from one machine's clock.

import type { Client } from '@temporalio/client';
import { wakeWorkflowId } from '../workflows/contract';
import type { BareRun } from './drive';
import type { BenchEnvironment } from './environment';
import type { RoomSide } from './sides';
import { median, round } from './statistics';

export interface Hop {
  readonly hop: string;
  /** Median duration in milliseconds. */
  readonly ms: number;
}

type Event = NonNullable<NonNullable<Awaited<ReturnType<typeof fetchEvents>>>[number]>;

const ACTIVITIES = ['first', 'second', 'third'] as const;

/** The hops of a product run, from the commit of the message to the commit of the reply. */
export async function hopsOfOurs(
  environment: BenchEnvironment,
  side: RoomSide,
  messages: readonly string[],
): Promise<Hop[]> {
  const { rows } = await side.sql.query<{
    agent: string;
    message: string;
    posted: number;
    delivered: number;
    acknowledged: number;
    claimed: number;
    asked: number;
    answered: number;
    replied: number;
  }>(
    `SELECT w.agent_id AS agent, w.message_id AS message, ${epochMs('pg_xact_commit_timestamp(woke.xmin)')} AS posted,
            ${epochMs('w.delivered_at')} AS delivered, ${epochMs('w.started_at')} AS acknowledged,
            ${epochMs('w.claimed_at')} AS claimed, ${epochMs('q.claimed_at')} AS asked,
            ${epochMs('q.ended_at')} AS answered, ${epochMs('pg_xact_commit_timestamp(reply.xmin)')} AS replied
     FROM wakes w JOIN messages woke ON woke.id = w.message_id
     JOIN messages reply ON reply.refers_to = woke.id AND reply.run_id IS NOT NULL
     JOIN model_requests q ON q.run_id = reply.run_id
     WHERE w.message_id = ANY($1)`,
    [messages],
  );
  const found: Hop[][] = [];
  for (const row of rows) {
    const marks = marksOf(await fetchEvents(environment.temporal.client, wakeWorkflowId(row.agent, row.message)));
    const { claimed, asked, answered } = row;
    const named = [
      { at: row.posted, what: '' },
      { at: row.delivered, what: 'posted → delivered by the dispatcher' },
      ...marks.flatMap((mark) => {
        if (mark.what === 'first activity works')
          return [{ at: claimed, what: '  first: until its row is written' }, mark];
        if (mark.what === 'second activity works') {
          return [
            { at: asked, what: '  second: until the request is claimed' },
            { at: answered, what: '  second: commit, model, until the answer is recorded' },
            mark,
          ];
        }
        return [mark];
      }),
    ];
    found.push(between(named, row.replied));
  }
  return medians(found);
}

/** The hops of the bare workflow, from the start request to the return of the third activity. */
export async function hopsOfBare(environment: BenchEnvironment, runs: readonly BareRun[]): Promise<Hop[]> {
  const found: Hop[][] = [];
  for (const run of runs) {
    const marks = marksOf(await fetchEvents(environment.temporal.client, run.workflowId));
    found.push(between([{ at: run.startedAt, what: '' }, ...marks], run.returnedAt));
  }
  return medians(found);
}

interface Mark {
  readonly at: number;
  /** The part that ends at this time. */
  readonly what: string;
}

function marksOf(events: readonly Event[]): Mark[] {
  const marks: Mark[] = [];
  let scheduled = 0;
  for (const event of events) {
    const at = timeOf(event);
    const which = `${ACTIVITIES[Math.max(0, scheduled - 1)] ?? 'later'} activity`;
    if (event.workflowExecutionStartedEventAttributes) marks.push({ at, what: 'started in Temporal' });
    if (event.activityTaskScheduledEventAttributes) {
      scheduled += 1;
      marks.push({ at, what: `until the ${ACTIVITIES[scheduled - 1] ?? 'later'} activity is scheduled` });
    }
    if (event.activityTaskStartedEventAttributes) marks.push({ at, what: `${which} is picked up` });
    if (event.activityTaskCompletedEventAttributes) marks.push({ at, what: `${which} works` });
  }
  return marks;
}

// The third activity ends with its effect; the history records its completion a little later.
function between(marks: readonly Mark[], end: number): Hop[] {
  const hops: Hop[] = [];
  for (let index = 1; index < marks.length; index += 1) {
    const mark = marks[index] as Mark;
    const before = marks[index - 1] as Mark;
    const isLast = mark.what === 'third activity works';
    hops.push({ hop: mark.what, ms: (isLast ? end : mark.at) - before.at });
    if (isLast) break;
  }
  return hops;
}

function medians(found: readonly Hop[][]): Hop[] {
  const first = found[0] ?? [];
  return first.map(({ hop }, index) => ({
    hop,
    ms: round(median(found.flatMap((hops) => (hops[index]?.hop === hop ? [hops[index].ms] : [])))),
  }));
}

async function fetchEvents(client: Client, workflowId: string) {
  const history = await client.workflow.getHandle(workflowId).fetchHistory();
  return history.events ?? [];
}

function timeOf(event: Event): number {
  const { seconds, nanos } = event.eventTime ?? {};
  return Number(seconds ?? 0) * 1_000 + (nanos ?? 0) / 1e6;
}

function epochMs(expression: string): string {
  return `(extract(epoch FROM ${expression}) * 1000)::float8`;
}
