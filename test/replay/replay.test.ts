// Recorded histories replayed against this code. A change that breaks one would break runs in flight at its deployment.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { buildWorkflowBundle, loadWorkflowBundle, type WorkflowBundle } from '../../worker/bundle';
import { ENDINGS } from '../../workflows/contract';
import { quietRuntime } from '../support/runs';
import { HISTORIES, VERSION, VERSIONS } from './versions';

/** A folder a version, `0.1.0/replied.json`. */
const names = readdirSync(HISTORIES, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json'));

let bundle: WorkflowBundle;

beforeAll(async () => {
  quietRuntime();
  bundle = await buildWorkflowBundle();
});

function load(name: string): { events: Record<string, unknown>[] } {
  return JSON.parse(readFileSync(join(HISTORIES, name), 'utf8')) as { events: Record<string, unknown>[] };
}

const replay = (history: unknown) => Worker.runReplayHistory({ workflowBundle: bundle }, history);

/** How the run of a history ended; null where the history does not say. */
function endingOf(name: string): string | null {
  const last = load(name).events.at(-1) ?? {};
  if ('workflowExecutionTerminatedEventAttributes' in last) return 'lost';
  const data = /"data":"([^"]*)"/.exec(JSON.stringify(last))?.[1] ?? '';
  return /"ending":"(\w+)"/.exec(Buffer.from(data, 'base64').toString('utf8'))?.[1] ?? null;
}

test('every version in the changelog has its recorded histories, and the present one has each ending that a run can have', () => {
  expect(VERSIONS).toContain(VERSION);
  for (const release of VERSIONS)
    expect(names.filter((name) => name.startsWith(`${release}/`)).length).toBeGreaterThan(9);
  const recorded = new Set(names.filter((name) => name.startsWith(`${VERSION}/`)).map(endingOf));
  expect(ENDINGS.filter((ending) => !recorded.has(ending))).toEqual([]);
});

test('there is one of a run as it waits, of runs that waited and were decided, and of one from before held actions', () => {
  const needed = [
    'parked',
    'parked-and-cancelled',
    'held-task-approved',
    'held-task-declined',
    'held-reply-declined',
    'held-reply-expired',
    'all-held-and-decided-one-by-one',
    'needs-approval-before-held-actions',
  ];
  expect(names).toEqual(expect.arrayContaining(needed.map((name) => `0.1.0/${name}.json`)));
});

test.each(names)('%s replays', async (name) => {
  await expect(replay(load(name))).resolves.toBeUndefined();
});

test('a worker that traces replays what one that does not has begun: tracing may be switched on under open runs', async () => {
  const traced = await loadWorkflowBundle(undefined, true);
  expect(traced.code).not.toBe(bundle.code);
  for (const name of names.filter((one) => one.startsWith(`${VERSION}/`)))
    await expect(Worker.runReplayHistory({ workflowBundle: traced }, load(name))).resolves.toBeUndefined();
});

test('a history in which another step was taken does not replay', async () => {
  const history = load(`${VERSION}/replied.json`);
  const wrong = JSON.stringify(history).replaceAll('"postReply"', '"writeMemory"');
  expect(wrong).not.toBe(JSON.stringify(history));
  await expect(replay(JSON.parse(wrong))).rejects.toThrow(DeterminismViolationError);
});

test('no recorded history holds what was said', () => {
  for (const name of names) {
    const payloads = JSON.stringify(load(name)).match(/"data":"[^"]*"/g) ?? [];
    const text = payloads.map((data) => Buffer.from(data.slice(8, -1), 'base64').toString('utf8')).join('\n');
    expect(text.length).toBeGreaterThan(50);
    expect(text).not.toMatch(/Hello\.|Done\.|It is done|Check it|please/);
  }
});
