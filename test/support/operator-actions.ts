// The actions of an operator on an execution in Temporal, by gRPC as in the CLI and the UI.

import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { History } from '@temporalio/common/lib/proto-utils';
import { WORKFLOW_TYPE, type AgentRunInput, type AgentRunResult } from '../../workflows/contract';
import { until } from './runs';

/** One execution: a workflow id and, for a specific run, its run id. */
export interface Target {
  readonly workflowId: string;
  readonly temporalRunId?: string | null;
}

export type EventId = NonNullable<NonNullable<History['events']>[number]['eventId']>;

export interface Pending {
  readonly activityId: string;
  readonly attempt: number;
  readonly paused: boolean;
  /** An attempt has started and not ended. */
  readonly running: boolean;
}

export type OperatorActions = ReturnType<typeof operatorActions>;

export function operatorActions(client: Client) {
  const { workflowService } = client;
  const execution = (target: Target) => ({ workflowId: target.workflowId, runId: target.temporalRunId ?? '' });
  const common = { namespace: 'default', identity: 'an operator' };

  /** The pending activity of this type (scheduled and not ended), or null. */
  const findPending = async (target: Target, type: string): Promise<Pending | null> => {
    const { pendingActivities } = await workflowService.describeWorkflowExecution({
      namespace: 'default',
      execution: execution(target),
    });
    const found = (pendingActivities ?? []).find((each) => each.activityType?.name === type);
    if (!found) return null;
    return {
      activityId: found.activityId ?? '',
      attempt: found.attempt ?? 0,
      paused: found.paused === true,
      running: RUNNING_STATES.has(Number(found.state)),
    };
  };
  const pendingOf = (target: Target, type: string): Promise<Pending> =>
    until(`${type} to be pending`, () => findPending(target, type));

  return {
    findPending,
    /** Waits until this activity is pending and no worker runs an attempt. */
    idle: (target: Target, type: string): Promise<Pending> =>
      until(`${type} to be pending and idle`, async () => {
        const pending = await findPending(target, type);
        return pending?.running === false && pending;
      }),

    /** The events to which this execution can be reset: the completions of workflow tasks. */
    async resetPoints(target: Target): Promise<EventId[]> {
      const handle = client.workflow.getHandle(target.workflowId, target.temporalRunId ?? undefined);
      const { events } = await handle.fetchHistory();
      return (events ?? []).flatMap((each) =>
        each.workflowTaskCompletedEventAttributes && each.eventId ? [each.eventId] : [],
      );
    },
    /** Resets this execution, and returns the run id of its copy. */
    async reset(target: Target, workflowTaskFinishEventId: EventId): Promise<string> {
      const { runId } = await workflowService.resetWorkflowExecution({
        ...common,
        workflowExecution: execution(target),
        reason: 'a test',
        requestId: randomUUID(),
        workflowTaskFinishEventId,
      });
      return runId ?? '';
    },
    terminate: (target: Target) =>
      client.workflow.getHandle(target.workflowId, target.temporalRunId ?? undefined).terminate('a test'),
    cancel: (target: Target) =>
      client.workflow.getHandle(target.workflowId, target.temporalRunId ?? undefined).cancel(),
    delete: (target: Target) =>
      workflowService.deleteWorkflowExecution({ namespace: 'default', workflowExecution: execution(target) }),
    /** Waits until Temporal does not have this execution any more. This takes up to half a minute. */
    gone: (target: Target) =>
      until('the execution to be gone', () =>
        client.workflow
          .getHandle(target.workflowId, target.temporalRunId ?? undefined)
          .describe()
          .then(
            () => false,
            () => true,
          ),
      ),
    /** Starts a workflow with this id, also if an execution exists. A running execution is terminated. */
    async startOver(taskQueue: string, workflowId: string, input: AgentRunInput): Promise<string> {
      const handle = await client.workflow.start(WORKFLOW_TYPE, {
        workflowId,
        taskQueue,
        args: [input],
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        workflowIdConflictPolicy: 'TERMINATE_EXISTING',
      });
      return handle.firstExecutionRunId;
    },
    result: async (target: Target): Promise<AgentRunResult> =>
      (await client.workflow
        .getHandle(target.workflowId, target.temporalRunId ?? undefined)
        .result()) as AgentRunResult,

    async pauseWorkflow({ workflowId }: Target): Promise<void> {
      await workflowService.pauseWorkflowExecution({
        ...common,
        workflowId,
        reason: 'a test',
        requestId: randomUUID(),
      });
    },
    async unpauseWorkflow({ workflowId }: Target): Promise<void> {
      const requestId = randomUUID();
      await workflowService.unpauseWorkflowExecution({ ...common, workflowId, reason: 'a test', requestId });
    },
    async pause(target: Target, type: string): Promise<void> {
      const { activityId: id } = await pendingOf(target, type);
      await workflowService.pauseActivity({ ...common, execution: execution(target), id, reason: 'a test' });
    },
    async unpause(target: Target, type: string): Promise<void> {
      const { activityId: id } = await pendingOf(target, type);
      await workflowService.unpauseActivity({ ...common, execution: execution(target), id });
    },
    async resetActivity(target: Target, type: string): Promise<void> {
      const { activityId: id } = await pendingOf(target, type);
      await workflowService.resetActivity({ ...common, execution: execution(target), id });
    },
    async allowAttempts(target: Target, type: string, maximumAttempts: number): Promise<void> {
      const { activityId: id } = await pendingOf(target, type);
      await workflowService.updateActivityOptions({
        ...common,
        execution: execution(target),
        id,
        activityOptions: { retryPolicy: { maximumAttempts } },
        updateMask: { paths: ['retry_policy.maximum_attempts'] },
      });
    },
    /** Completes the activity with this result, in place of its worker. */
    async complete(target: Target, type: string, result: unknown): Promise<void> {
      const { activityId } = await pendingOf(target, type);
      const runId = target.temporalRunId ?? undefined;
      const id = { workflowId: target.workflowId, activityId, ...(runId === undefined ? {} : { runId }) };
      await client.activity.complete(id, result);
    },
  };
}

/** Numbers of pending activity states in the server's API: started, cancel requested, pause requested. */
const RUNNING_STATES: ReadonlySet<number> = new Set([2, 3, 5]);
