import { parseRetryAfter } from '../../activities/model/retry-after';

const NOW = Date.UTC(2026, 7, 8, 12, 0, 0);
const YEAR_MS = 365 * 24 * 60 * 60 * 1000;

const named = (retryAfter: string | null, retryAfterMs: string | null = null): number | null =>
  parseRetryAfter({ retryAfter, retryAfterMs }, NOW);

describe('the wait that headers name', () => {
  test('is null without headers', () => {
    expect(named(null)).toBeNull();
  });

  test.each([
    ['1', 1000],
    [' 20 ', 20_000],
    ['21', 21_000],
    ['86400', 86_400_000],
    ['0.25', 250],
    ['1.0005', 1001],
  ])('seconds, also as a fraction: %j', (header, expected) => {
    expect(named(header)).toBe(expected);
  });

  test.each(['0', '0.0', 'Sat, 08 Aug 2026 11:59:00 GMT', 'Sat, 08 Aug 2026 12:00:00 GMT'])(
    'is 1 ms, never 0, for zero and for a time in the past: %j',
    (header) => {
      expect(named(header)).toBe(1);
    },
  );

  test.each([
    ['Sat, 08 Aug 2026 12:00:05 GMT', 5000],
    ['Sat, 08 Aug 2026 12:10:00 GMT', 600_000],
    ['Saturday, 08-Aug-26 12:00:05 GMT', 5000],
    ['Sat Aug  8 12:00:05 2026', 5000],
  ])('each form of an HTTP date, from now: %j', (header, expected) => {
    expect(named(header)).toBe(expected);
  });

  test.each([
    'soon',
    '6m0s',
    '',
    ' ',
    '-1',
    '1e3',
    '0x10',
    'NaN',
    'Infinity',
    '1,5',
    '1, 2',
    '2026-08-08T12:00:05Z',
    'Sat, 31 Feb 2026 12:00:05 GMT',
    'Sat, 08 Foo 2026 12:00:05 GMT',
    'Sat, 08 Aug 2026 25:00:05 GMT',
    'Sat, 08 Aug 2026 12:00:05 PST',
  ])('garbage names no wait: %j', (header) => {
    expect(named(header)).toBeNull();
  });

  test('is at most a year', () => {
    expect(named('9'.repeat(400))).toBe(YEAR_MS);
    expect(named('Fri, 31 Dec 9999 23:59:59 GMT')).toBe(YEAR_MS);
  });
});

describe('retry-after-ms beside retry-after', () => {
  test.each([
    ['is preferred up to 20,000', '800', '1', 800],
    ['is preferred at 20,000', '20000', '1', 20_000],
    ['is ignored above 20,000', '20001', '2', 2000],
    ['is ignored if it is invalid', 'soon', '2', 2000],
    ['counts above 20,000 without another header', '60000', null, 60_000],
    ['counts above 20,000 if the other header is invalid', '60000', 'soon', 60_000],
    ['is 1 ms if it is 0', '0', '9', 1],
    ['is rounded up', '0.4', null, 1],
  ])('%s', (_what, ms, seconds, expected) => {
    expect(named(seconds, ms)).toBe(expected);
  });

  test('seconds alone are never milliseconds', () => {
    expect(named('2')).toBe(2000);
  });
});
