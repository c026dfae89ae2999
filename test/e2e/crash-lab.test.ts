// A small run of the crash lab on the servers of the test run: kills between an effect and its record, in ways 3 to 5.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { runLab, type LabResult } from '../../bench/crash-lab/lab';
import { actedTwice, isFinished, type Observation } from '../../bench/crash-lab/observation';
import { timesOf } from '../../bench/crash-lab/settings';
import { findBrokenExpectations } from '../../bench/crash-lab/summary';
import type { Way } from '../../bench/crash-lab/ways';
import { createTestDatabase } from '../support/database';
import { temporalAddress } from '../support/run-waits';
import { startScriptedModel } from '../support/scripted-model-server';

const POINTS = ['post:between', 'memory:between', 'task:between'] as const;

let lab: LabResult;

beforeAll(async () => {
  const scratch = await mkdtemp(join(tmpdir(), 'durable-room-lab-'));
  const model = await startScriptedModel();
  const connection = await Connection.connect({ address: temporalAddress() });
  try {
    lab = await runLab(
      {
        temporalAddress: temporalAddress(),
        client: new Client({ connection }),
        model,
        scratch,
        createDatabase: async () => {
          const { url, drop } = await createTestDatabase({ migrated: true });
          return { url, workerUrl: url, countStatements: async () => null, drop };
        },
      },
      { ways: ['record', 'stop', 'resume'], points: POINTS, jobs: 1, perDeath: 3, costJobs: 0, times: timesOf() },
      { begin: () => undefined, at: () => undefined },
    );
  } finally {
    await connection.close();
    await model.stop();
    await rm(scratch, { recursive: true, force: true });
  }
  // Takes half a minute on two idle cores.
});

function of(way: Way): readonly Observation[] {
  const observed = lab.observations.filter((each) => each.way === way);
  expect(observed.map((each) => each.point).sort()).toEqual([...POINTS].sort());
  expect(observed.every((each) => each.reached && each.settled)).toBe(true);
  return observed;
}

test('a record after the effect: a kill between the two causes a double effect', () => {
  expect(
    of('record')
      .filter(actedTwice)
      .map((each) => each.point)
      .sort(),
  ).toEqual([...POINTS].sort());
});

test('claim first, on_crash stop: no double effect; later steps are lost, and a new message completes them', () => {
  const observed = of('stop');
  expect([...observed, ...lab.discarded].filter((each) => each.way === 'stop' && actedTwice(each))).toEqual([]);
  const unfinished = observed.filter((each) => !isFinished(each));
  expect(unfinished.map((each) => [each.point, each.ending, each.lostSteps, each.next?.completedLater]).sort()).toEqual(
    [
      ['memory:between', 'partial', 1, true],
      ['post:between', 'partial', 2, true],
    ],
  );
});

test('claim first, on_crash resume: no double effect, and every step is done', () => {
  const observed = of('resume');
  expect([...observed, ...lab.discarded].filter((each) => each.way === 'resume' && actedTwice(each))).toEqual([]);
  expect(observed.map((each) => [each.posts, each.memory, each.tasks, each.ending])).toEqual(
    POINTS.map(() => [1, 1, 1, 'replied']),
  );
});

test('the lab reports a result that proves nothing, and a claimed run that acted twice', () => {
  expect(findBrokenExpectations(lab)).toEqual([]);
  const changed = (way: Way, posts: number): LabResult => ({
    ...lab,
    observations: lab.observations.map((each) => (each.way === way ? { ...each, posts, memory: 1, tasks: 1 } : each)),
  });
  // Repeated jobs may also have shown the gap.
  const withoutGap = { ...changed('record', 1), discarded: [] };
  expect(findBrokenExpectations(withoutGap)).toEqual([expect.stringContaining('the lab proves nothing')]);
  for (const way of ['stop', 'resume'] as const) {
    expect(findBrokenExpectations(changed(way, 2))).toHaveLength(POINTS.length);
  }
});
