// Facts from a job's history in Temporal: what continued first after a worker died, and the number of failed attempts.

import type { WorkflowHandle } from '@temporalio/client';

type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

export interface HistoryFacts {
  /** When a process other than `deadPid` first started work, in milliseconds of Date.now; null if none did. */
  readonly pickedUpAt: number | null;
  /** `attempt`: another attempt of the same activity. `replay`: the workflow, replayed from its history. */
  readonly pickedUpBy: 'attempt' | 'replay' | null;
  /** Failed attempts of activities. One kill causes at most one. */
  readonly failedAttempts: number;
  readonly activities: number;
  readonly events: number;
  readonly endedAt: number | null;
}

export async function readHistory(handle: WorkflowHandle, deadPid: number | null): Promise<HistoryFacts> {
  const { events } = await handle.fetchHistory();
  const all = events ?? [];
  const begun = all
    .map((event) => ({ event, by: startedBy(event) }))
    .filter(({ by }) => by !== null && deadPid !== null && !by.identity.startsWith(`${deadPid}@`))
    .map(({ event, by }) => ({ at: timeOf(event), kind: by?.kind ?? 'replay' }))
    .sort((a, b) => a.at - b.at);
  const last = all.at(-1);
  return {
    pickedUpAt: begun[0]?.at ?? null,
    pickedUpBy: begun[0]?.kind ?? null,
    failedAttempts: all.reduce((sum, event) => sum + failuresIn(event), 0),
    activities: all.filter((event) => event.activityTaskScheduledEventAttributes).length,
    events: all.length,
    endedAt: last?.workflowExecutionCompletedEventAttributes ? timeOf(last) : null,
  };
}

function startedBy(event: HistoryEvent): { identity: string; kind: 'attempt' | 'replay' } | null {
  const activity = event.activityTaskStartedEventAttributes;
  if (activity) return { identity: activity.identity ?? '', kind: 'attempt' };
  const task = event.workflowTaskStartedEventAttributes;
  return task ? { identity: task.identity ?? '', kind: 'replay' } : null;
}

// The history has only the attempt number of the last attempt, not the earlier attempts.
function failuresIn(event: HistoryEvent): number {
  const retried = event.activityTaskStartedEventAttributes?.attempt;
  if (retried !== undefined && retried !== null) return retried - 1;
  return event.activityTaskTimedOutEventAttributes || event.activityTaskFailedEventAttributes ? 1 : 0;
}

function timeOf(event: HistoryEvent): number {
  const { seconds, nanos } = event.eventTime ?? {};
  return Number(seconds ?? 0) * 1_000 + (nanos ?? 0) / 1e6;
}
