// Reads everything that Temporal stores about an execution: the history with every payload, memo, search attributes,
// summaries and pending activities.

import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';

/** Everything as one text, in which a test searches for strings. Base64 is included both encoded and decoded. */
export async function readableExecution(client: Client, workflowId: string, runId?: string): Promise<string> {
  const handle = client.workflow.getHandle(workflowId, runId);
  const history = historyToJSON(await handle.fetchHistory());
  const { raw } = await handle.describe();
  return [history, bytesOf(history), JSON.stringify(raw), ...buffersIn(raw)].join('\n');
}

function bytesOf(json: string): string {
  const data = json.match(/"[A-Za-z0-9+/=]{4,}"/g) ?? [];
  return data.map((text) => Buffer.from(text.slice(1, -1), 'base64').toString('utf8')).join('\n');
}

function buffersIn(value: unknown): string[] {
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('utf8')];
  if (ArrayBuffer.isView(value))
    return [Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('utf8')];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(buffersIn);
}

/** Resets an execution to its first workflow task, and returns the run id of the copy. */
export async function resetExecution(client: Client, workflowId: string): Promise<string> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  const first = (events ?? []).find((event) => event.workflowTaskCompletedEventAttributes);
  const { runId } = await client.workflowService.resetWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId },
    reason: 'a test',
    requestId: randomUUID(),
    workflowTaskFinishEventId: first?.eventId ?? null,
  });
  return runId;
}
