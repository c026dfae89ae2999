// One request to a model over real HTTP: what is sent, and what becomes of answers that arrive (cases.md, section b).
// Answers that fail the request are in model-call-failures.test.ts.

import { requestReply, type ModelAnswer } from '../../activities/model/provider';
import { REPLY_JSON_SCHEMA } from '../../activities/model/reply';
import { KEY, useModelCalls } from '../support/model-calls';
import { answer, startScriptedModel, type ScriptedAnswer } from '../support/scripted-model-server';

const SILENT = { reply: null, memory: null, task_updates: [], tasks_to_send: [] };
const KNOWN_USAGE = { inputTokens: 120, outputTokens: 30 };

const calls = useModelCalls();

const replied = (text: string | null, changes: Partial<Extract<ModelAnswer, { kind: 'reply' }>> = {}): ModelAnswer => ({
  kind: 'reply',
  reply: { ...SILENT, reply: text },
  usage: KNOWN_USAGE,
  finishReason: 'stop',
  ...changes,
});

describe('the request', () => {
  test('carries the key, the prompt by role and the schema, and nothing that would stream', async () => {
    await calls.callGiven(answer.reply('ok'), { maxOutputTokens: 900 });
    const [request] = calls.model.requests;
    expect(request).toMatchObject({
      path: '/v1/chat/completions',
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: {
        model: 'some-model',
        max_tokens: 900,
        messages: [
          { role: 'system', content: 'You are scribe.' },
          { role: 'user', content: 'Someone wrote: hi' },
        ],
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'reply', strict: true, schema: REPLY_JSON_SCHEMA },
        },
      },
    });
    expect(request?.body).not.toHaveProperty('stream');
  });

  test('is well-formed even where a cut split an emoji', async () => {
    const options = { signal: new AbortController().signal, timeoutMs: 5000 };
    const endpoint = { baseUrl: calls.model.url, apiKey: KEY, model: 'm', ownerSupplied: false };
    await requestReply(endpoint, { system: 'a\uD83D', user: '\uDE80b\0 🚀' }, options);
    expect(calls.model.requests[0]?.textOf('system')).toBe('a\uFFFD');
    expect(calls.model.requests[0]?.textOf('user')).toBe('\uFFFDb\uFFFD 🚀');
  });

  test.each(['', '/', '/v1', '/v1/', '/v1/chat/completions'])(
    'reaches the one right path from the base URL "host%s"',
    async (end) => {
      await calls.callGiven(answer.reply('ok'), { baseUrl: calls.model.origin + end });
      expect(calls.model.requests[0]?.path).toBe('/v1/chat/completions');
    },
  );

  test('is not sent to an unusable address or with an unusable key, and neither comes back', async () => {
    const host = calls.model.origin.replace('http://', '');
    for (const baseUrl of [
      `${calls.model.url}?key=canary`,
      `http://canary:canary@${host}/v1`,
      'ftp://canary',
      'canary',
    ]) {
      const came = await calls.call({ baseUrl });
      expect(came).toEqual({ kind: 'refused', code: 'address_refused', status: null, providerCode: null });
    }
    for (const apiKey of ['', 'canary\ncanary', '“canary”']) {
      const came = await calls.call({ apiKey });
      expect(came).toEqual({ kind: 'refused', code: 'key_rejected', status: null, providerCode: null });
    }
    expect(calls.model.connections).toBe(0);
    await calls.callGiven(answer.reply('ok'), { apiKey: ` ${KEY}\n` });
    expect(calls.model.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  });

  test('goes through no proxy of the environment', async () => {
    const proxy = await startScriptedModel();
    const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY', 'NODE_USE_ENV_PROXY'];
    const before = names.map((name) => process.env[name]);
    for (const name of names) process.env[name] = name.startsWith('NODE') ? '1' : proxy.origin;
    try {
      await calls.callGiven(answer.reply('ok'));
      expect(proxy.connections).toBe(0);
    } finally {
      names.forEach((name, at) => {
        if (before[at] === undefined) delete process.env[name];
        else process.env[name] = before[at];
      });
      await proxy.stop();
    }
  });
});

describe('a good answer', () => {
  const memory = { category: 'fact', content: 'line', tags: [], visibility: 'shared' } as const;

  test.each<[string, ScriptedAnswer, ModelAnswer]>([
    [
      'as declared JSON',
      answer.reply({ reply: 'hi', memory }),
      replied('hi', { reply: { ...SILENT, reply: 'hi', memory } }),
    ],
    ['as JSON in a fence', answer.reply('```json\n{"reply":"hi"}\n```'), replied('hi')],
    ['as plain text', answer.reply('hi'), replied('hi')],
    ['that says nothing', answer.reply({ reply: null }), replied(null)],
    ['with a leading reasoning block', answer.reply('<think>canary</think>Done.'), replied('Done.')],
    [
      'with reasoning in a field of its own',
      answer.message({ content: 'Done.', reasoning_content: 'canary' }),
      replied('Done.'),
    ],
    ['with NUL and a lone surrogate', answer.reply('a\0b\uD800c'), replied('a\uFFFDb\uFFFDc')],
    [
      'with a finish reason never seen before',
      answer.reply('hi', { finishReason: 'cosmic_ray' }),
      replied('hi', { finishReason: 'cosmic_ray' }),
    ],
    [
      'with a finish reason that is no short word',
      answer.reply('hi', { finishReason: 'canary canary' }),
      replied('hi', { finishReason: null }),
    ],
    ['without a finish reason', answer.reply('hi', { finishReason: null }), replied('hi', { finishReason: null })],
    [
      'with text beside a tool call',
      answer.message({ content: 'hi', tool_calls: [{ id: '1', type: 'function', function: { name: 'f' } }] }),
      replied('hi'),
    ],
    ['from a server that packs unasked', answer.gzip(answer.reply('hi')), replied('hi')],
    [
      'with content in parts',
      answer.message({
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'canary' }] },
          { type: 'text', text: 'Done' },
          { type: 'x', text: 'canary' },
        ],
      }),
      replied('Done'),
    ],
    [
      'with the end mark of a stream glued to it',
      answer.raw(200, `${String(answer.reply('hi').body)}\n\ndata: [DONE]\n\n`, {
        'content-type': 'text/event-stream',
      }),
      replied('hi'),
    ],
    ['that begins with a byte-order mark', answer.raw(200, `\uFEFF${String(answer.reply('hi').body)}`), replied('hi')],
  ])('%s', async (_how, scripted, expected) => {
    expect(await calls.callGiven(scripted)).toEqual(expected);
  });

  test.each<[string, unknown, object]>([
    ['absent', undefined, { inputTokens: null, outputTokens: null }],
    ['null', null, { inputTokens: null, outputTokens: null }],
    ['as text', { prompt_tokens: '120', completion_tokens: '30' }, { inputTokens: null, outputTokens: null }],
    ['a word', 'canary', { inputTokens: null, outputTokens: null }],
    ['without one count', { prompt_tokens: 7 }, { inputTokens: 7, outputTokens: null }],
    ['negative or broken', { prompt_tokens: -1, completion_tokens: 1.5 }, { inputTokens: null, outputTokens: null }],
    ['too large for a column', { prompt_tokens: 1e12, completion_tokens: 0 }, { inputTokens: null, outputTokens: 0 }],
  ])('with usage %s is a reply with unknown tokens', async (_how, usage, expected) => {
    expect(await calls.callGiven(answer.reply('hi', { usage }))).toEqual(replied('hi', { usage: expected as never }));
  });
});

describe('an answer that is no reply', () => {
  const empty = (finishReason: string | null) => ({
    kind: 'failed',
    code: 'reply_empty',
    usage: KNOWN_USAGE,
    finishReason,
  });
  const declined = { kind: 'refused', code: 'model_declined', status: 200 };

  test.each<[string, ScriptedAnswer, object]>([
    ['empty text', answer.reply(''), empty('stop')],
    ['null', answer.message({ content: null }), empty('stop')],
    ['spaces', answer.reply('  \n'), empty('stop')],
    ['a zero-width space', answer.reply('\u200B'), empty('stop')],
    ['no content at all', answer.message({}), empty('stop')],
    [
      'a tool call and no text',
      answer.message({ content: null, tool_calls: [{ id: '1' }] }, { finishReason: 'tool_calls' }),
      empty('tool_calls'),
    ],
    ['a think block never closed', answer.reply('<think>canary'), empty('stop')],
    [
      'declared JSON that breaks the schema',
      answer.reply('{"reply":"canary","approve":true}'),
      { ...empty('stop'), code: 'reply_invalid' },
    ],
    ['a reply over the limit', answer.reply('🚀'.repeat(150_000)), { ...empty('stop'), code: 'reply_too_long' }],
    [
      'cut off, though its JSON parses',
      answer.reply({ reply: 'canary' }, { finishReason: 'length' }),
      { ...empty('length'), code: 'reply_truncated' },
    ],
    [
      'cut off before any text',
      answer.reply('', { finishReason: 'length' }),
      { ...empty('length'), code: 'reply_truncated' },
    ],
    ['a refusal finish reason', answer.reply('', { finishReason: 'refusal' }), declined],
    ['a content filter', answer.reply('', { finishReason: 'content_filter' }), declined],
    ['the rest that a content filter left', answer.reply('canary', { finishReason: 'content_filter' }), declined],
    ['a refusal field', answer.message({ content: null, refusal: 'canary: I cannot' }), declined],
    ['a refusal part', answer.message({ content: [{ type: 'refusal', refusal: 'canary' }] }), declined],
  ])('%s', async (_what, scripted, expected) => {
    expect(await calls.callGiven(scripted)).toMatchObject(expected);
  });
});

describe('time and cancellation', () => {
  const timedOut = { kind: 'retry', code: 'timeout', status: null, providerCode: null, namedWaitMs: null };

  test.each<[string, ScriptedAnswer]>([
    ['no answer', answer.hold()],
    ['headers and no body', answer.headersOnly()],
    ['one byte at a time', answer.drip(50)],
  ])('the limit is on the whole time: %s', async (_what, scripted) => {
    expect(await calls.callGiven(scripted, { timeoutMs: 300 })).toEqual(timedOut);
    await expectHangUp();
  });

  test('our own signal ends a request in flight, and the provider sees it end', async () => {
    const cancel = new AbortController();
    calls.model.script(answer.hold());
    const pending = calls.call({ signal: cancel.signal });
    await calls.model.waitForRequests(1);
    cancel.abort(new Error('canary'));
    expect(await pending).toEqual({ kind: 'aborted' });
    await expectHangUp();
    expect(calls.model.requests).toHaveLength(1);
  });

  test('our own signal given before the call sends nothing', async () => {
    expect(await calls.call({ signal: AbortSignal.abort() })).toEqual({ kind: 'aborted' });
    expect(calls.model.connections).toBe(0);
  });

  test('a reply that is in is kept when the signal comes after it', async () => {
    const cancel = new AbortController();
    calls.model.script('paid for');
    const came = await calls.call({ signal: cancel.signal });
    cancel.abort();
    expect(came).toEqual(replied('paid for'));
  });

  async function expectHangUp(): Promise<void> {
    for (let tries = 0; tries < 100 && calls.model.requests[0]?.aborted !== true; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(calls.model.requests[0]?.aborted).toBe(true);
  }
});

test('forty calls at once keep their keys, prompts and answers apart', async () => {
  calls.model.respond((request) => `${request.headers.authorization} said ${request.textOf('user')}`);
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      requestReply(
        { baseUrl: calls.model.url, apiKey: `key-${n}`, model: 'm', ownerSupplied: n % 2 === 0 },
        { system: '', user: `prompt ${n}` },
        { signal: new AbortController().signal, timeoutMs: 5000 },
      ),
    ),
  );
  answers.forEach((came, n) => expect(came).toEqual(replied(`Bearer key-${n} said prompt ${n}`)));
  expect(calls.model.requests).toHaveLength(40);
});
