// The only reader of histories: what Temporal still knows about the execution of a run, or why it can't be read. Reads only;
// sends no command.

import { Client, WorkflowNotFoundError, type Connection, type WorkflowExecutionDescription } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import type { History } from '@temporalio/common/lib/proto-utils';
import type { TimelineEntry } from '../../prisma/store/runs/timeline';
import { openLazily } from './connection';
import { loadedConverter } from './data-converter';
import { explainTemporalFailure } from './failure';
import { historyEntries, describeFailure, timeOf } from './history-entries';
import type { TemporalSettings } from './settings';

/** A person waits for the answer, and without the history the answer comes from the ledger alone. */
const ANSWER_WITHIN_MS = 4_000;
/** More copies of an execution than an operator creates. */
const COPIES = 20;

export interface Execution {
  readonly workflowId: string;
  /** Null if no execution ever held the claim; then the newest execution is read. */
  readonly temporalRunId: string | null;
}

export type HistoryReading =
  | { readonly state: 'read'; readonly events: number; readonly history: History; readonly entries: TimelineEntry[] }
  /** Temporal does not know the execution: its retention ended, it was deleted, or the cluster is another one. */
  | { readonly state: 'forgotten' }
  /** `why` is for the operator of the deployment, not for API clients. */
  | { readonly state: 'unreachable'; readonly why: string }
  | { readonly state: 'not_configured' };

export interface RunHistories {
  /** Never rejects: a failure is a state of the reading. */
  read(execution: Execution): Promise<HistoryReading>;
  close(): Promise<void>;
}

/** For a process without Temporal: every timeline comes from the ledger alone. */
export const NO_HISTORIES: RunHistories = {
  read: () => Promise.resolve({ state: 'not_configured' }),
  close: () => Promise.resolve(),
};

/** Reads histories through its own connection, which opens at the first use. */
export function openHistories(settings: TemporalSettings, converter: DataConverter | undefined): RunHistories {
  const connection = openLazily(settings);
  const client = new Client({
    connection,
    namespace: settings.namespace,
    ...(converter === undefined ? {} : { dataConverter: converter }),
  });
  const read = async (execution: Execution): Promise<HistoryReading> => {
    const handle = client.workflow.getHandle(execution.workflowId, execution.temporalRunId ?? undefined);
    // First, because its errors distinguish a missing workflow from a missing namespace; those of fetchHistory do not.
    const pending = pendingAttempts(await handle.describe());
    const history = await handle.fetchHistory();
    const entries = await historyEntries(loadedConverter(converter), history);
    const copies = await otherExecutions(client, execution);
    return {
      state: 'read',
      events: history.events?.length ?? 0,
      history,
      entries: [...entries, ...pending, ...copies],
    };
  };
  return {
    read: async (execution) => {
      try {
        return await within(connection, () => read(execution));
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return { state: 'forgotten' };
        return { state: 'unreachable', why: explainTemporalFailure(settings, error).message };
      }
    },
    close: () => connection.close(),
  };
}

function within<T>(connection: Connection, work: () => Promise<T>): Promise<T> {
  return connection.withDeadline(Date.now() + ANSWER_WITHIN_MS, work);
}

/** Attempts in progress or waiting for a retry: the history holds an attempt only when it has ended. */
function pendingAttempts({ raw }: WorkflowExecutionDescription): TimelineEntry[] {
  return (raw.pendingActivities ?? []).map((pending) => {
    const before = pending.lastFailure ? `; the last one: ${describeFailure(pending.lastFailure)}` : '';
    const activity = pending.activityType?.name ?? 'an activity';
    const attempt = pending.attempt ?? 1;
    return {
      at: timeOf(pending.lastStartedTime ?? pending.scheduledTime),
      source: 'temporal',
      kind: 'attempt',
      message: `${activity}: attempt ${attempt} is not over yet${before}`,
      facts: { activity, attempt },
    };
  });
}

/**
 * Other executions with this workflow id: resets, or starts after Temporal forgot the first one. The claim or the fence
 * refused each of them.
 */
async function otherExecutions(client: Client, { workflowId, temporalRunId }: Execution): Promise<TimelineEntry[]> {
  if (temporalRunId === null) return [];
  const entries: TimelineEntry[] = [];
  for await (const other of client.workflow.list({ query: `WorkflowId = '${workflowId}'`, pageSize: COPIES })) {
    if (other.runId === temporalRunId) continue;
    const common = { source: 'temporal', kind: 'execution' } as const;
    const facts = { temporal_run: other.runId, ended: 0 };
    entries.push({ ...common, at: other.startTime, message: `another execution, ${other.runId}, is started`, facts });
    const status = other.status.name.toLowerCase();
    const ended = { ...common, message: `${other.runId} ends: ${status}`, facts: { ...facts, ended: 1 } };
    if (other.closeTime) entries.push({ ...ended, at: other.closeTime });
    if (entries.length >= 2 * COPIES) break;
  }
  return entries;
}
