// Known systems and their way, from their public documentation.

import type { Way } from './ways';

export interface KnownSystem {
  readonly name: string;
  readonly ways: readonly Way[];
  readonly quote: string;
  readonly source: { readonly title: string; readonly url: string };
}

export const KNOWN_SYSTEMS: readonly KnownSystem[] = [
  {
    name: 'Trigger.dev, a run that is retried',
    ways: ['top'],
    quote:
      '“When a run retries, run() executes again from the top, and every API call, database write, or email inside it happens again unless that operation is itself idempotent.”',
    source: { title: 'Trigger.dev, Idempotency', url: 'https://trigger.dev/docs/idempotency' },
  },
  {
    name: 'Trigger.dev, with the record that it recommends',
    ways: ['record'],
    quote:
      '“For a side effect with no idempotency support, record that you performed it in your own database and check that record before performing it again.”',
    source: { title: 'Trigger.dev, Idempotency', url: 'https://trigger.dev/docs/idempotency' },
  },
  {
    name: 'Temporal, the workflow',
    ways: ['replay', 'stop', 'resume'],
    quote:
      '“If a failure occurs, the Workflow Execution picks up where the last recorded event occurred in the Event History.”',
    source: { title: 'Temporal, Workflow Execution overview', url: 'https://docs.temporal.io/workflow-execution' },
  },
  {
    name: 'Temporal, its activities',
    ways: ['replay'],
    quote: '“Because Activities may be retried, these functions may be executed more than once.”',
    source: { title: 'Temporal, Activity Definition', url: 'https://docs.temporal.io/activity-definition#idempotency' },
  },
  {
    name: 'Microsoft Durable Functions, the orchestrator',
    ways: ['replay'],
    quote:
      '“orchestrator functions must be deterministic: an orchestrator function replays multiple times, and it must produce the same result each time.”',
    source: {
      title: 'Microsoft Learn, Durable orchestrator code constraints',
      url: 'https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-code-constraints',
    },
  },
  {
    name: 'Microsoft Durable Functions, its activities',
    ways: ['replay'],
    quote:
      '“Because activities only guarantee at least once execution, it’s recommended that activity logic be implemented as idempotent whenever possible.”',
    source: {
      title: 'Microsoft Learn, TaskActivity',
      url: 'https://learn.microsoft.com/java/api/com.microsoft.durabletask.taskactivity',
    },
  },
  {
    name: 'Anthropic’s harness for long-running agents',
    ways: [],
    quote:
      'Each session “begins with no memory of what came before”, and starts from a written summary and the git history of the previous session. It is none of the five ways: like the next message in ways 4 and 5 it reads the current state; work that a session did and did not record is the gap of way 3.',
    source: {
      title: 'Anthropic, Effective harnesses for long-running agents',
      url: 'https://www.anthropic.com/engineering/effective-harnesses-for-long-running-agents',
    },
  },
  {
    name: 'The room of the article',
    ways: ['stop'],
    quote:
      'A run claims the message that woke it before it reads or writes anything. A run that dies is not repeated, and the next message starts a new run.',
    source: {
      title: 'How does an AI agent survive a crash halfway through its work?, the article that this project answers',
      url: '',
    },
  },
];
