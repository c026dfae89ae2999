// The search for leaked secrets finds a secret in every form and in every kind of value.

import { findSecrets, formsOf, textsOf } from '../support/canary-search';

const PLAIN = 'sk-canary-7f3k9q2m4x8w1z5v';
const SPECIAL = 'sk-can"ary\\/+%20&=<7f3k>9q2m\'4x8w';

describe.each([PLAIN, SPECIAL])('%s', (secret) => {
  test.each([...formsOf(secret).keys()])('is found as %s, in the middle of a text', (form) => {
    const text = `before ${formsOf(secret).get(form)} after`;
    expect(findSecrets({ log: text }, ['another-secret-entirely', secret])).toContain(`log: secret 2, ${form}`);
  });

  test.each([0, 1, 2, 3, 4, 5])('is found in the base64 of a text with %d letters before it', (before) => {
    for (const encoding of ['base64', 'base64url'] as const) {
      const packed = Buffer.from(`${'x'.repeat(before)}${secret}, and more`).toString(encoding);
      expect(findSecrets({ packed }, [secret])).not.toEqual([]);
    }
  });

  test('is found inside JSON inside base64 inside JSON', () => {
    const deep = JSON.stringify({ data: Buffer.from(JSON.stringify({ key: secret })).toString('base64') });
    // An escaped secret in base64 is a different text; its parts without an escape are the same.
    expect(findSecrets({ deep: Buffer.from(JSON.parse(deep).data as string, 'base64') }, [secret])).not.toEqual([]);
  });

  test.each<[string, unknown]>([
    ['a field', { a: [{ b: secret }] }],
    ['the name of a field', { [secret]: 1 }],
    ['bytes', { data: Buffer.from(secret) }],
    ['bytes of another realm', { data: new Uint8Array(Buffer.from(secret)) }],
    ['a map', new Map([['a', secret]])],
    ['the key of a map', new Map([[secret, 1]])],
    ['an error', new Error(`refused ${secret}`)],
    ['the cause of an error', new Error('refused', { cause: { secret } })],
    ['a field of an error', Object.assign(new Error('refused'), { detail: secret })],
  ])('is found in %s', (_place, holds) => {
    expect(findSecrets({ holds }, [secret])).not.toEqual([]);
  });
});

test('nothing is found in a value without the secret, and the search of a cyclic value ends', () => {
  const ring: Record<string, unknown> = { text: 'sk-other' };
  ring['self'] = ring;
  expect([...textsOf(ring)]).toEqual(['text', 'sk-other', 'self']);
  expect(findSecrets({ ring }, [PLAIN, SPECIAL])).toEqual([]);
});
