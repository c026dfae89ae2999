import { cleanModelKey, completionsBase, normalizeBaseUrl } from '../../prisma/model-endpoint';

/** The address that a call goes to, as the provider builds it. */
function calledUrl(input: string): string {
  const normalized = normalizeBaseUrl(input);
  return normalized.ok ? `${completionsBase(normalized.url)}/chat/completions` : 'refused';
}

describe('a base URL', () => {
  test.each([
    ['https://m.example', 'https://m.example/v1/chat/completions'],
    ['https://m.example/', 'https://m.example/v1/chat/completions'],
    ['https://m.example/v1', 'https://m.example/v1/chat/completions'],
    ['https://m.example/v1/', 'https://m.example/v1/chat/completions'],
    ['https://m.example//v1//', 'https://m.example/v1/chat/completions'],
    ['https://m.example/v1/chat/completions', 'https://m.example/v1/chat/completions'],
    ['https://m.example/v1/chat/completions/', 'https://m.example/v1/chat/completions'],
    ['https://m.example/chat/completions', 'https://m.example/chat/completions'],
    ['https://m.example/api/v1', 'https://m.example/api/v1/chat/completions'],
    ['https://m.example/v1beta/openai', 'https://m.example/v1beta/openai/chat/completions'],
    ['  HTTPS://M.Example:443/v1 \n', 'https://m.example/v1/chat/completions'],
    ['http://127.0.0.1:11434', 'http://127.0.0.1:11434/v1/chat/completions'],
    ['http://[::1]:8080/v1', 'http://[::1]:8080/v1/chat/completions'],
  ])('%j reaches %s', (input, expected) => {
    expect(calledUrl(input)).toBe(expected);
  });

  test.each([
    'https://m.example',
    'https://m.example/v1/',
    'https://m.example/chat/completions',
    'https://m.example/x/chat/completions',
  ])('normalised twice is the same: %j', (input) => {
    const once = normalizeBaseUrl(input);
    expect(once.ok && normalizeBaseUrl(once.url)).toEqual(once);
  });

  test.each([
    'https://m.example/v1?x=canary',
    'https://m.example/v1?',
    'https://m.example/v1#canary',
    'https://m.example/v1#',
    'https://canary:canary@m.example/v1',
    'https://canary@m.example/v1',
    'https://@m.example/v1',
    'ftp://m.example/canary',
    'file:///etc/canary',
    'javascript:canary',
    'm.example/canary',
    'https:m.example',
    'https://',
    'https:///v1',
    'https://m.example:canary/v1',
    'https://m.example/v 1/canary',
    'https://m.exa\nmple/canary',
    'https://m.example\\canary',
    '',
    `https://m.example/${'canary'.repeat(1000)}`,
  ])('is refused with a reason that repeats nothing: %j', (input) => {
    const normalized = normalizeBaseUrl(input);
    expect(normalized).toEqual({ ok: false, reason: expect.stringMatching(/^The base URL .+\.$/) });
    expect(JSON.stringify(normalized)).not.toContain('canary');
  });
});

describe('a pasted model key', () => {
  test.each([
    ['sk-1\n', 'sk-1'],
    [' sk-1', 'sk-1'],
    ['\r\n\tsk-1 ', 'sk-1'],
    ['\uFEFFsk-1', 'sk-1'],
    ['sk-1', 'sk-1'],
  ])('is trimmed: %j', (input, key) => {
    expect(cleanModelKey(input)).toEqual({ ok: true, key });
  });

  test.each([
    'sk-canary\nsk-canary',
    'Bearer sk-canary',
    '“sk-canary”',
    'sk-canary\0',
    'sk-canary\u200B1',
    'sk-canaryü',
    '',
    ' \n',
    'canary'.repeat(500),
  ])('is refused without repeating it: %j', (input) => {
    const cleaned = cleanModelKey(input);
    expect(cleaned).toEqual({ ok: false, reason: expect.stringMatching(/^The key .+\.$/) });
    expect(JSON.stringify(cleaned)).not.toContain('canary');
  });
});
