import crypto from 'node:crypto';

import { createSecretBox, parseMasterKeys, SecretBoxError } from '../../workflows/policy/secret-box';

const key = (id: string) => ({ id, key: crypto.randomBytes(32) });
const [k1, k2] = [key('k1'), key('k2')];
const SECRET = 'sk-canary-ключ-🔑';
const BOUND = 'mkey_1 https://model.example/v1';

/** The error of a call that must fail, after checking that it repeats none of the given texts. */
function errorOf(call: () => unknown, ...secrets: string[]): string {
  try {
    call();
  } catch (error) {
    expect(error).toBeInstanceOf(SecretBoxError);
    const shown = `${String(error)} ${(error as Error).stack} ${JSON.stringify(error)} ${String((error as Error).cause)}`;
    for (const secret of secrets) expect(shown).not.toContain(secret);
    return (error as Error).message;
  }
  throw new Error('nothing was thrown');
}

describe('a sealed secret', () => {
  const box = createSecretBox([k1]);

  test.each([SECRET, '', 'x'.repeat(10_000)])('opens to what was sealed', (plain) => {
    expect(box.open(box.seal(plain, BOUND), BOUND)).toBe(plain);
  });

  test('has the stored form, does not contain the secret, and is different each time', () => {
    const [first, second] = [box.seal(SECRET, BOUND), box.seal(SECRET, BOUND)];
    expect(first).toMatch(/^v1\.k1\.[\w-]{16}\.[\w-]+$/);
    expect(first).not.toContain('canary');
    expect(first).not.toBe(second);
    expect(box.keyIdOf(first)).toBe('k1');
  });

  test('does not open for another address', () => {
    const sealed = box.seal(SECRET, BOUND);
    expect(errorOf(() => box.open(sealed, 'mkey_1 https://evil.example/v1'), SECRET, sealed)).toMatch(/not sealed/);
  });

  test('does not open after a change of any part', () => {
    const sealed = box.seal(SECRET, BOUND);
    for (let at = sealed.indexOf('.', 3) + 1; at < sealed.length; at += 1) {
      if (sealed[at] === '.') continue;
      const changed = sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1);
      errorOf(() => box.open(changed, BOUND), SECRET, changed);
    }
  });

  test('does not open with a shortened tag', () => {
    const [version, id, nonce, packed = ''] = box.seal('', BOUND).split('.');
    const short = Buffer.from(packed, 'base64url').subarray(0, 12).toString('base64url');
    errorOf(() => box.open([version, id, nonce, short].join('.'), BOUND));
  });

  test.each([
    '',
    'v1',
    'v1.k1',
    'v2.k1.AAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA',
    SECRET,
    'v1.k1.AAAA.AAAA',
    'v1.k1.!.!',
  ])('is refused when it is no sealed text: %j', (text) => {
    expect(errorOf(() => box.open(text, BOUND))).toBe('this is not a sealed text');
    expect(errorOf(() => box.keyIdOf(text))).toBe('this is not a sealed text');
  });
});

describe('rotation of master keys', () => {
  test('the first master key seals, and any master key opens', () => {
    const before = createSecretBox([k1]).seal(SECRET, BOUND);
    const rotated = createSecretBox([k2, k1]);
    expect(rotated.open(before, BOUND)).toBe(SECRET);
    expect(rotated.keyIdOf(rotated.seal(SECRET, BOUND))).toBe('k2');
  });

  test('the error names a removed master key, and contains no secret', () => {
    const sealed = createSecretBox([k1]).seal(SECRET, BOUND);
    expect(errorOf(() => createSecretBox([k2]).open(sealed, BOUND), SECRET, sealed)).toMatch(/not configured/);
  });

  test('another key under the same id does not open', () => {
    const sealed = createSecretBox([k1]).seal(SECRET, BOUND);
    errorOf(() => createSecretBox([key('k1')]).open(sealed, BOUND), SECRET, sealed);
  });

  test('a box without keys, with a short key, a bad id or a repeated id is refused', () => {
    errorOf(() => createSecretBox([]));
    errorOf(() => createSecretBox([{ id: 'a', key: Buffer.alloc(16) }]));
    errorOf(() => createSecretBox([{ id: 'a.b', key: Buffer.alloc(32) }]));
    errorOf(() => createSecretBox([k1, { ...k2, id: 'k1' }]));
  });
});

describe('configured master keys', () => {
  const base64 = (of: { key: Buffer }): string => of.key.toString('base64');

  test('are read in order, with spaces and either base64 alphabet', () => {
    const text = ` k1:${base64(k1)} , k2:${k2.key.toString('base64url')} `;
    expect(parseMasterKeys(text)).toEqual([k1, k2]);
  });

  test.each([
    ['nothing', '', /none given/],
    ['a key without an id', base64(k1), /entry 1: expected/],
    ['an empty entry', `k1:${base64(k1)},`, /entry 2: expected/],
    ['an empty id', `:${base64(k1)}`, /entry 1: the id/],
    ['a key in place of the id', `${base64(k1)}:k1`, /entry 1: the id/],
    ['the same id twice', `k1:${base64(k1)},k1:${base64(k2)}`, /entry 2: its id/],
    ['text that is not base64', 'k1:canary!canary', /entry 1: the key is not base64/],
    ['a short key', `k1:${Buffer.alloc(16, 7).toString('base64')}`, /16 bytes, not 32/],
  ])('%s is refused with its position, and the error does not repeat it', (_what, text, message) => {
    const secrets = [base64(k1), base64(k2), 'canary', Buffer.alloc(16, 7).toString('base64')];
    expect(errorOf(() => parseMasterKeys(text), ...secrets)).toMatch(message);
  });
});
