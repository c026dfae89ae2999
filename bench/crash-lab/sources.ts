// Which known systems work in which of the five ways, by their public documentation.

import type { Way } from './ways';

export interface KnownSystem {
  readonly name: string;
  readonly ways: readonly Way[];
  readonly says: string;
  readonly source: { readonly title: string; readonly url: string };
}

export const KNOWN_SYSTEMS: readonly KnownSystem[] = [
  {
    name: 'Trigger.dev, a run that is retried',
    ways: ['top'],
    says: '“When a run retries, run() executes again from the top, and every API call, database write, or email inside it happens again unless that operation is itself idempotent.”',
    source: { title: 'Trigger.dev, Idempotency', url: 'https://trigger.dev/docs/idempotency' },
  },
  {
    name: 'Trigger.dev, with the record that it recommends',
    ways: ['record'],
    says: '“For a side effect with no idempotency support, record that you performed it in your own database and check that record before performing it again.”',
    source: { title: 'Trigger.dev, Idempotency', url: 'https://trigger.dev/docs/idempotency' },
  },
  {
    name: 'Temporal, the workflow',
    ways: ['replay', 'stop', 'resume'],
    says: '“If a failure occurs, the Workflow Execution picks up where the last recorded event occurred in the Event History.”',
    source: { title: 'Temporal, Workflow Execution overview', url: 'https://docs.temporal.io/workflow-execution' },
  },
  {
    name: 'Temporal, its activities',
    ways: ['replay'],
    says: '“Because Activities may be retried, these functions may be executed more than once.”',
    source: { title: 'Temporal, Activity Definition', url: 'https://docs.temporal.io/activity-definition#idempotency' },
  },
  {
    name: 'Microsoft Durable Functions, the orchestrator',
    ways: ['replay'],
    says: '“orchestrator functions must be deterministic: an orchestrator function replays multiple times, and it must produce the same result each time.”',
    source: {
      title: 'Microsoft Learn, Durable orchestrator code constraints',
      url: 'https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-code-constraints',
    },
  },
  {
    name: 'Microsoft Durable Functions, its activities',
    ways: ['replay'],
    says: '“Because activities only guarantee at least once execution, it’s recommended that activity logic be implemented as idempotent whenever possible.”',
    source: {
      title: 'Microsoft Learn, TaskActivity',
      url: 'https://learn.microsoft.com/java/api/com.microsoft.durabletask.taskactivity',
    },
  },
  {
    name: 'Anthropic’s harness for long-running agents',
    ways: [],
    says: 'Each session “begins with no memory of what came before”, and starts from a written summary and the git history that the one before it left. It is none of the five: like the next message in ways 4 and 5 it reads what is there; what a session did and had not yet written down is way 3’s gap.',
    source: {
      title: 'Anthropic, Effective harnesses for long-running agents',
      url: 'https://www.anthropic.com/engineering/effective-harnesses-for-long-running-agents',
    },
  },
  {
    name: 'The room of the article',
    ways: ['stop'],
    says: 'A run claims the message that woke it before it reads or writes anything, once and for good; a run that dies midway is not redone, and the next message starts a fresh one.',
    source: {
      title: 'How does an AI agent survive a crash halfway through its work?, the article that this project answers',
      url: '',
    },
  },
];
