// A run's lanes: crashes, retries and second executions are visible in the chart.

import fc from 'fast-check';
import { laneOf, layLanes, LANES } from '../../api/console/lanes';
import type { Timeline } from '../../api/console/resources';
import { TIMELINE_KINDS } from '../../prisma/store/runs/timeline';

type Entry = Timeline['data'][number];

const START = Date.parse('2026-08-08T17:00:00.000Z');
const entry = (ms: number, kind: Entry['kind'], facts: Entry['facts'], message: string = kind): Entry => ({
  at: new Date(START + ms).toISOString(),
  source: 'temporal',
  kind,
  message,
  facts,
});
const event = (ms: number, type: string, activity?: number): Entry =>
  entry(ms, 'history_event', { event: 1, type, ...(activity !== undefined && { activity_event: activity }) }, type);
const lanes = (data: Entry[], state: 'open' | 'closed' = 'closed') => layLanes({ data, state });
const drawn = (data: Entry[], state?: 'open' | 'closed') =>
  lanes(data, state).marks.map(({ lane, tone, from, to, open }) => [
    lane,
    tone,
    from - START,
    to === null ? null : to - START,
    open,
  ]);

test('an attempt is a span from its start to its end, and the wait before it is another span', () => {
  const data = [
    event(0, 'activityTaskScheduled', 5),
    event(10, 'activityTaskStarted', 5),
    event(40, 'activityTaskCompleted', 5),
  ];
  expect(drawn(data)).toEqual([
    ['waits', 'waiting', 0, 10, false],
    ['attempts', 'good', 10, 40, false],
  ]);
});

test('a worker that dies in a step leaves a failed attempt before the successful one', () => {
  const data = [
    event(0, 'activityTaskScheduled', 5),
    event(5, 'activityTaskStarted', 5),
    event(8_000, 'activityTaskTimedOut', 5),
    event(8_010, 'activityTaskScheduled', 9),
    event(8_020, 'activityTaskStarted', 9),
    event(8_030, 'activityTaskCompleted', 9),
  ];
  const attempts = lanes(data).marks.filter(({ lane }) => lane === 'attempts');
  expect(attempts.map(({ tone }) => tone)).toEqual(['bad', 'good']);
});

test('two started attempts are two spans, even if the first has no end', () => {
  const data = [event(0, 'activityTaskStarted', 5), event(20, 'activityTaskStarted', 5)];
  expect(drawn(data)).toEqual([
    ['attempts', 'waiting', 0, 20, false],
    ['attempts', 'waiting', 20, 20, true],
  ]);
});

test('a failed request and the next request are separate spans', () => {
  const data = [
    entry(0, 'request', { request: 1, outcome: 'in_flight' }),
    entry(100, 'request', { request: 1, outcome: 'retry', code: 'overloaded' }),
    entry(2_100, 'request', { request: 2, outcome: 'in_flight' }),
    entry(2_300, 'request', { request: 2, outcome: 'answered' }),
  ];
  expect(drawn(data)).toEqual([
    ['provider requests', 'bad', 0, 100, false],
    ['provider requests', 'good', 2_100, 2_300, false],
  ]);
});

test('another execution has its own lane', () => {
  const data = [
    entry(0, 'claim', {}),
    entry(50, 'execution', { temporal_run: 'b', ended: 0 }),
    entry(90, 'execution', { temporal_run: 'b', ended: 1 }),
  ];
  expect(drawn(data)[1]).toEqual(['other executions', 'bad', 50, 90, false]);
});

test('an open span ends at the newest entry', () => {
  const data = [entry(0, 'request', { request: 1, outcome: 'in_flight' }), entry(500, 'claim', {})];
  expect(drawn(data, 'open')).toContainEqual(['provider requests', 'waiting', 0, 500, true]);
});

test('a hold is a wait that ends with the decision', () => {
  const data = [entry(0, 'hold', { step: 'reply' }), entry(100, 'decision', { step: 'reply', state: 'approved' })];
  expect(drawn(data)).toEqual([['waits', 'good', 0, 100, false]]);
});

test('every entry has a lane and a mark, and positions follow the order of time', () => {
  const types = [
    'activityTaskScheduled',
    'activityTaskStarted',
    'activityTaskCompleted',
    'activityTaskFailed',
    'timerStarted',
    'workflowTaskTimedOut',
    'unknownType',
  ];
  const arbitrary = fc.array(
    fc.record({
      ms: fc.integer({ min: 0, max: 400_000_000 }),
      kind: fc.constantFrom(...TIMELINE_KINDS),
      type: fc.constantFrom(...types),
      of: fc.integer({ min: 1, max: 3 }),
    }),
    { minLength: 1, maxLength: 40 },
  );
  fc.assert(
    fc.property(arbitrary, (made) => {
      const data = made
        .sort((a, b) => a.ms - b.ms)
        .map(({ ms, kind, type, of }, i) =>
          entry(
            ms,
            kind,
            {
              type,
              activity_event: of,
              request: of,
              step: of,
              activity: of,
              temporal_run: of,
              outcome: of === 1 ? 'in_flight' : 'answered',
            },
            `entry ${i}.`,
          ),
        );
      const { marks, positionOf } = lanes(data);
      for (const one of data) {
        expect(LANES).toContain(laneOf(one));
        expect(marks.some(({ label }) => label.includes(one.message))).toBe(true);
      }
      const positions = data.map(({ at }) => positionOf(Date.parse(at)));
      expect(positions).toEqual([...positions].sort((a, b) => a - b));
      for (const at of positions) expect(at >= 0 && at <= 1).toBe(true);
    }),
  );
});
