// Recorded histories replayed against this code. A change that breaks one would break runs in flight at its deployment.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { buildWorkflowBundle, type WorkflowBundle } from '../../worker/bundle';
import { quietRuntime } from '../support/runs';

const HISTORIES = join(__dirname, 'histories');
const names = readdirSync(HISTORIES).filter((name) => name.endsWith('.json'));

let bundle: WorkflowBundle;

beforeAll(async () => {
  quietRuntime();
  bundle = await buildWorkflowBundle();
});

function load(name: string): { events: Record<string, unknown>[] } {
  return JSON.parse(readFileSync(join(HISTORIES, name), 'utf8')) as { events: Record<string, unknown>[] };
}

const replay = (history: unknown) => Worker.runReplayHistory({ workflowBundle: bundle }, history);

test('there is a recorded history of a good, a refused, a stopped and a partial run, among others', () => {
  const needed = ['replied.json', 'refused-by-the-provider.json', 'stopped-at-the-reply.json', 'partial.json'];
  expect(names).toEqual(expect.arrayContaining(needed));
  expect(names.length).toBeGreaterThanOrEqual(19);
});

test('there is one of a run as it waits, of runs that waited and were decided, and of one from before held actions', () => {
  const needed = [
    'parked.json',
    'parked-and-cancelled.json',
    'held-task-approved.json',
    'held-reply-declined.json',
    'all-held-and-decided-one-by-one.json',
    'needs-approval-before-held-actions.json',
  ];
  expect(names).toEqual(expect.arrayContaining(needed));
});

test.each(names)('%s replays', async (name) => {
  await expect(replay(load(name))).resolves.toBeUndefined();
});

test('a history in which another step was taken does not replay', async () => {
  const history = load('replied.json');
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
