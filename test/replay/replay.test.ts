// Replays recorded histories with this code. A change that breaks a replay would also break open runs at its deployment.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import type { WorkflowBundle } from '../../worker/bundle';
import { ENDINGS } from '../../workflows/contract';
import { quietRuntime } from '../support/runs';
import { sharedWorkflowBundle } from '../support/workflow-bundle';
import { HISTORIES, VERSION, VERSIONS } from './versions';

/** Paths such as `0.1.0/replied.json`; each version has a folder. */
const names = readdirSync(HISTORIES, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json'));

let bundle: WorkflowBundle;

beforeAll(async () => {
  quietRuntime();
  bundle = await sharedWorkflowBundle();
});

function load(name: string): { events: Record<string, unknown>[] } {
  return JSON.parse(readFileSync(join(HISTORIES, name), 'utf8')) as { events: Record<string, unknown>[] };
}

/** The result of each replay, by name: an error or undefined. One worker replays all of them. */
async function replayAll(workflowBundle: WorkflowBundle, recorded: readonly string[]): Promise<Map<string, unknown>> {
  const histories = recorded.map((name) => ({ workflowId: name, history: load(name) }));
  const outcomes = new Map<string, unknown>();
  for await (const { workflowId, error } of Worker.runReplayHistories({ workflowBundle }, histories))
    outcomes.set(workflowId, error);
  return outcomes;
}

/** The ending of the run of a history; null if the history has none. */
function endingOf(name: string): string | null {
  const last = load(name).events.at(-1) ?? {};
  if ('workflowExecutionTerminatedEventAttributes' in last) return 'lost';
  const data = /"data":"([^"]*)"/.exec(JSON.stringify(last))?.[1] ?? '';
  return /"ending":"(\w+)"/.exec(Buffer.from(data, 'base64').toString('utf8'))?.[1] ?? null;
}

test('every version in the changelog has recorded histories, and the current version has a history of every ending', () => {
  expect(VERSIONS).toContain(VERSION);
  for (const release of VERSIONS)
    expect(names.filter((name) => name.startsWith(`${release}/`)).length).toBeGreaterThan(9);
  const recorded = new Set(names.filter((name) => name.startsWith(`${VERSION}/`)).map(endingOf));
  expect(ENDINGS.filter((ending) => !recorded.has(ending))).toEqual([]);
});

test('there are histories of a parked run, of decided runs, and of a run from before held actions', () => {
  const needed = [
    'parked.json',
    'parked-and-cancelled.json',
    'held-task-approved.json',
    'held-reply-declined.json',
    'all-held-and-decided-one-by-one.json',
    'needs-approval-before-held-actions.json',
  ];
  expect(names).toEqual(expect.arrayContaining(needed.map((name) => `${VERSION}/${name}`)));
});

describe('replays', () => {
  let outcomes: Map<string, unknown>;
  beforeAll(async () => {
    outcomes = await replayAll(bundle, names);
  });

  test.each(names)('%s', (name) => {
    expect([...outcomes]).toContainEqual([name, undefined]);
  });
});

test('a worker with tracing replays histories of a worker without tracing, so tracing may be enabled with open runs', async () => {
  const traced = await sharedWorkflowBundle(undefined, true);
  expect(traced.code).not.toBe(bundle.code);
  const current = names.filter((one) => one.startsWith(`${VERSION}/`));
  expect([...(await replayAll(traced, current))]).toEqual(
    expect.arrayContaining(current.map((name) => [name, undefined])),
  );
});

test('a history with a different step does not replay', async () => {
  const history = load(`${VERSION}/replied.json`);
  const wrong = JSON.stringify(history).replaceAll('"postReply"', '"writeMemory"');
  expect(wrong).not.toBe(JSON.stringify(history));
  const replaying = Worker.runReplayHistory({ workflowBundle: bundle }, JSON.parse(wrong) as unknown);
  await expect(replaying).rejects.toThrow(DeterminismViolationError);
});

test('no recorded history contains the text of a message or reply', () => {
  for (const name of names) {
    const payloads = JSON.stringify(load(name)).match(/"data":"[^"]*"/g) ?? [];
    const text = payloads.map((data) => Buffer.from(data.slice(8, -1), 'base64').toString('utf8')).join('\n');
    expect(text.length).toBeGreaterThan(50);
    expect(text).not.toMatch(/Hello\.|Done\.|It is done|Check it|please/);
  }
});
