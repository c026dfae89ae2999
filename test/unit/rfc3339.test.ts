// Deadlines and times: a person's request and a model's reply accept the same texts.

import { parseReply } from '../../activities/model/reply';
import { deadline, instant } from '../../api/schemas/fields';

/** Accepted texts with the stored value. */
const TAKEN: readonly (readonly [given: string, stored: string])[] = [
  ['2026-08-08', '2026-08-08'],
  ['2024-02-29', '2024-02-29'],
  ['0001-01-01', '0001-01-01'],
  ['9999-12-31', '9999-12-31'],
  ['2026-08-08T17:00:00Z', '2026-08-08T17:00:00.000Z'],
  ['2026-08-08t17:00:00.25z', '2026-08-08T17:00:00.250Z'],
  ['2026-08-08T17:00:00.123456789Z', '2026-08-08T17:00:00.123Z'],
  ['2026-08-08T17:00:00-04:00', '2026-08-08T21:00:00.000Z'],
  ['2026-08-08T17:00:00-00:00', '2026-08-08T17:00:00.000Z'],
  ['2026-08-08T17:00:00+15:59', '2026-08-08T01:01:00.000Z'],
  ['2026-08-08T17:00:00+16:00', '2026-08-08T01:00:00.000Z'],
  ['2026-08-08T17:00:00-23:59', '2026-08-09T16:59:00.000Z'],
];

const REFUSED: readonly string[] = [
  '',
  'tomorrow',
  '08/08/2026',
  '2026-8-8',
  '12026-08-08',
  '0000-01-01',
  '2026-13-01',
  '2026-02-29',
  '2026-02-30',
  '2026-02-30T00:00:00Z',
  '2026-08-08\n',
  '2026-08-08T17:00:00',
  '2026-08-08T17:00Z',
  '2026-08-08 17:00:00Z',
  '2026-08-08T17:00:00.Z',
  '2026-08-08T17:00:00.1234567890Z',
  '2026-08-08T24:00:00Z',
  '2026-08-08T17:60:00Z',
  '2026-08-08T17:00:60Z',
  '2026-08-08T17:00:00+24:00',
  '2026-08-08T17:00:00+0400',
  '0001-01-01T00:00:00+01:00',
  '9999-12-31T23:00:00-12:00',
];

/** The deadline that a person's request stores, or null if it is refused. */
function fromPerson(text: string): string | null {
  return deadline.safeParse(text).data ?? null;
}

/** The deadline that a model's reply stores, or null if the reply is refused. */
function fromModel(text: string): string | null {
  const task = { to: 'scribe', goal: 'write it up', deadline: text };
  const parsed = parseReply(JSON.stringify({ reply: null, tasks_to_send: [task] }));
  return parsed.ok ? (parsed.reply.tasks_to_send[0]?.deadline ?? null) : null;
}

test.each(TAKEN)('%s is stored as %s', (given, stored) => {
  expect([fromPerson(given), fromModel(given)]).toEqual([stored, stored]);
});

test.each(REFUSED)('%j is refused', (given) => {
  expect([fromPerson(given), fromModel(given)]).toEqual([null, null]);
});

test('a filter accepts the same times, and no dates', () => {
  for (const [given, stored] of TAKEN) {
    expect(instant.safeParse(given).data?.toISOString()).toBe(given === stored ? undefined : stored);
  }
  for (const given of REFUSED) expect(instant.safeParse(given).success).toBe(false);
});
