// The time limit of a run without its parked time, with a clock that the test sets.

import fc from 'fast-check';
import { startActiveTime } from '../../workflows/active-time';

test('parked time does not count, however often the run parks', () => {
  let now = 1_000;
  const time = startActiveTime(300, () => now);
  now += 100;
  expect(time.leftMs()).toBe(200);
  time.park();
  now += 1_000_000;
  expect(time.leftMs()).toBe(200);
  expect(time.isOver()).toBe(false);
  time.resume();
  now += 150;
  time.park();
  time.park();
  now += 5;
  time.resume();
  time.resume();
  expect(time.leftMs()).toBe(50);
  now += 50;
  expect(time.isOver()).toBe(true);
  expect(time.leftMs()).toBe(1);
});

test('a limit reached before parking stays reached', () => {
  let now = 0;
  const time = startActiveTime(10, () => now);
  now = 11;
  time.park();
  now = 1_000;
  expect(time.isOver()).toBe(true);
  time.resume();
  expect(time.isOver()).toBe(true);
});

test('in every sequence of parking, exactly the unparked time counts', () => {
  const stretch = fc.record({ parked: fc.boolean(), ms: fc.nat(1_000) });
  fc.assert(
    fc.property(fc.array(stretch, { maxLength: 30 }), fc.integer({ min: 1, max: 5_000 }), (stretches, limitMs) => {
      let now = 0;
      let active = 0;
      const time = startActiveTime(limitMs, () => now);
      for (const { parked, ms } of stretches) {
        if (parked) time.park();
        now += ms;
        if (parked) time.resume();
        else active += ms;
      }
      expect(time.isOver()).toBe(active >= limitMs);
      expect(time.leftMs()).toBe(Math.max(1, limitMs - active));
    }),
  );
});
