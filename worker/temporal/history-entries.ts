// A workflow history as entries of a run's timeline: which events are included, and the message of each. Successful workflow
// tasks are left out, because they show no effect.

import type { LoadedDataConverter } from '@temporalio/common';
import { decodeArrayFromPayloads, decodeUserMetadata } from '@temporalio/common/lib/internal-non-workflow';
import type { History } from '@temporalio/common/lib/proto-utils';
import type { TimelineEntry } from '../../prisma/store/runs/timeline';

type Event = NonNullable<History['events']>[number];
type Payloads = Parameters<typeof decodeArrayFromPayloads>[1];
type Failure = NonNullable<Event['activityTaskFailedEventAttributes']>['failure'];

/** The entries of a history, in the order of its events. */
export async function historyEntries(converter: LoadedDataConverter, history: History): Promise<TimelineEntry[]> {
  const events = history.events ?? [];
  const activities = new Map<string, string>();
  const entries: TimelineEntry[] = [];
  for (const event of events) {
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) activities.set(idOf(event.eventId), await activityName(converter, event));
    const message = await describeEvent(converter, event, (id) => activities.get(idOf(id)) ?? 'an activity');
    if (message === null) continue;
    entries.push({
      at: timeOf(event.eventTime),
      source: 'temporal',
      kind: 'history_event',
      message,
      facts: { event: Number(event.eventId ?? 0), type: eventType(event), ...activityFact(event) },
    });
  }
  return entries;
}

/** The number of the event that scheduled this event's activity, so that a reader can group them. */
function activityFact(event: Event): { activity_event?: number } {
  if (event.activityTaskScheduledEventAttributes) return { activity_event: Number(event.eventId ?? 0) };
  const { scheduledEventId } =
    event.activityTaskStartedEventAttributes ??
    event.activityTaskCompletedEventAttributes ??
    event.activityTaskFailedEventAttributes ??
    event.activityTaskTimedOutEventAttributes ??
    event.activityTaskCancelRequestedEventAttributes ??
    event.activityTaskCanceledEventAttributes ??
    {};
  return scheduledEventId ? { activity_event: Number(scheduledEventId) } : {};
}

async function describeEvent(
  converter: LoadedDataConverter,
  event: Event,
  activity: (scheduledEventId: Event['eventId']) => string,
): Promise<string | null> {
  const type = eventType(event);
  const on = (attributes: { scheduledEventId?: Event['eventId'] } | null | undefined): string =>
    activity(attributes?.scheduledEventId);
  switch (type) {
    case 'workflowTaskScheduled':
    case 'workflowTaskStarted':
    case 'workflowTaskCompleted':
      return null;
    case 'workflowExecutionStarted':
      return 'workflow execution is started';
    case 'activityTaskScheduled':
      return `${activity(event.eventId)} is scheduled`;
    case 'activityTaskStarted': {
      const started = event.activityTaskStartedEventAttributes;
      const before = started?.lastFailure ? `; the one before: ${describeFailure(started.lastFailure)}` : '';
      return `${on(started)}: attempt ${started?.attempt ?? 1} is with a worker${before}`;
    }
    case 'activityTaskCompleted': {
      const completed = event.activityTaskCompletedEventAttributes;
      return `${on(completed)} answers${await describeResult(converter, completed?.result?.payloads)}`;
    }
    case 'activityTaskFailed': {
      const failed = event.activityTaskFailedEventAttributes;
      return `${on(failed)} fails: ${describeFailure(failed?.failure)}`;
    }
    case 'activityTaskTimedOut': {
      const timedOut = event.activityTaskTimedOutEventAttributes;
      return `${on(timedOut)} is given up: ${describeFailure(timedOut?.failure)}`;
    }
    case 'activityTaskCancelRequested':
      return `${on(event.activityTaskCancelRequestedEventAttributes)} is asked to stop`;
    case 'activityTaskCanceled':
      return `${on(event.activityTaskCanceledEventAttributes)} has stopped`;
    case 'workflowTaskFailed':
      return `a workflow task fails: ${describeFailure(event.workflowTaskFailedEventAttributes?.failure)}`;
    case 'workflowTaskTimedOut':
      return 'a workflow task is given up: its worker did not answer in time';
    case 'workflowExecutionSignaled':
      return `signal ${event.workflowExecutionSignaledEventAttributes?.signalName ?? ''} arrives`;
    case 'workflowExecutionCancelRequested':
      return 'the workflow is asked to cancel';
    case 'workflowExecutionCompleted': {
      const result = event.workflowExecutionCompletedEventAttributes?.result?.payloads;
      return `workflow execution is completed${await describeResult(converter, result)}`;
    }
    case 'workflowExecutionFailed':
      return `workflow execution fails: ${describeFailure(event.workflowExecutionFailedEventAttributes?.failure)}`;
    case 'workflowExecutionTerminated':
      return 'workflow execution is terminated';
    default:
      return inWords(type);
  }
}

/** The activity's type, with its summary if the history has one. */
async function activityName(converter: LoadedDataConverter, event: Event): Promise<string> {
  const type = event.activityTaskScheduledEventAttributes?.activityType?.name ?? 'an activity';
  const summary = await decodeUserMetadata(converter, event.userMetadata).then(
    (metadata) => metadata.staticSummary,
    () => undefined,
  );
  return summary === undefined ? type : `${type} (${summary})`;
}

/** The known fields of a result: ids and words of closed sets. Other fields, which a later version may add, are left out. */
async function describeResult(converter: LoadedDataConverter, payloads: Payloads): Promise<string> {
  const [result] = await decodeArrayFromPayloads(converter, payloads).catch(() => ['unreadable']);
  if (result === 'unreadable') return ' (its payload needs the data converter it was written with)';
  if (typeof result !== 'object' || result === null) return typeof result === 'string' ? `: ${result}` : '';
  const known = ['status', 'result', 'state', 'ending', 'why', 'run']
    .map((name) => (result as Record<string, unknown>)[name])
    .filter((value) => typeof value === 'string');
  return known.length === 0 ? '' : `: ${known.join(' · ')}`;
}

/** Failures in our histories hold a type and a message without content, so both can be shown. */
export function describeFailure(failure: Failure): string {
  if (!failure) return 'no reason is given';
  const { cause } = failure;
  const timeout = failure.timeoutFailureInfo;
  const type = failure.applicationFailureInfo?.type;
  const own = timeout ? 'no answer within its time' : [type, failure.message].filter(Boolean).join(': ');
  return cause ? `${own}, after ${describeFailure(cause)}` : own;
}

function eventType(event: Event): string {
  const key = Object.entries(event).find(([name, value]) => name.endsWith('EventAttributes') && value);
  return key?.[0].slice(0, -'EventAttributes'.length) ?? 'unknown';
}

function inWords(type: string): string {
  return type.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function idOf(id: Event['eventId']): string {
  return String(id ?? '');
}

/** A time of Temporal's clock, in whole milliseconds. */
export function timeOf(time: Event['eventTime']): Date {
  return new Date(Number(time?.seconds ?? 0) * 1_000 + Math.floor((time?.nanos ?? 0) / 1e6));
}
