import { calledBase, cleanModelKey, MODEL_PROTOCOLS, normalizeBaseUrl } from '../../workflows/policy/model-endpoint';

/** The address that a call goes to, as the provider builds it. */
function calledUrl(input: string): string {
  const normalized = normalizeBaseUrl(input, 'openai_compatible');
  return normalized.ok ? `${calledBase(normalized.url, 'openai_compatible')}/chat/completions` : 'refused';
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
    ['https://m.example', 'https://m.example/v1/messages'],
    ['https://m.example/v1/', 'https://m.example/v1/messages'],
    ['https://m.example/v1/messages', 'https://m.example/v1/messages'],
    ['https://m.example/messages', 'https://m.example/messages'],
    ['https://m.example/anthropic', 'https://m.example/anthropic/v1/messages'],
    ['https://m.example/anthropic/v1beta', 'https://m.example/anthropic/v1beta/messages'],
  ])('of Anthropic Messages, %j, reaches %s', (input, expected) => {
    const normalized = normalizeBaseUrl(input, 'anthropic');
    expect(normalized.ok && `${calledBase(normalized.url, 'anthropic')}/messages`).toBe(expected);
  });

  test.each([
    ['https://m.example', 'https://m.example/v1/responses'],
    ['https://m.example/v1/responses/', 'https://m.example/v1/responses'],
    ['https://m.example/openai', 'https://m.example/openai/responses'],
    ['https://m.example/responses', 'https://m.example/responses'],
  ])('of OpenAI Responses, %j, reaches %s', (input, expected) => {
    const normalized = normalizeBaseUrl(input, 'openai');
    expect(normalized.ok && `${calledBase(normalized.url, 'openai')}/responses`).toBe(expected);
  });

  test.each([
    ['openai_compatible', 'https://m.example/v1/messages', 'anthropic'],
    ['openai_compatible', 'https://m.example/v1/responses', 'openai'],
    ['openai', 'https://m.example/v1/chat/completions', 'openai_compatible'],
    ['anthropic', 'https://m.example/v1/chat/completions', 'openai_compatible'],
  ] as const)(
    'of %s that ends in another path, %s, is refused, and the error names that protocol',
    (protocol, input, other) => {
      const normalized = normalizeBaseUrl(input, protocol);
      expect(normalized).toEqual({ ok: false, reason: expect.stringContaining(other) });
    },
  );

  test.each(
    MODEL_PROTOCOLS.flatMap((protocol) =>
      ['', '/', '/v1/', '/x', '/chat/completions', '/x/chat/completions', '/messages', '/x/messages', '/responses'].map(
        (end) => [protocol, end] as const,
      ),
    ),
  )('of %s, normalised twice, is the same: host%s', (protocol, end) => {
    const once = normalizeBaseUrl(`https://m.example${end}`, protocol);
    if (once.ok) expect(normalizeBaseUrl(once.url, protocol)).toEqual(once);
    else expect(once.reason).toContain('another protocol');
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
    const normalized = normalizeBaseUrl(input, 'openai_compatible');
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
