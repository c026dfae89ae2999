// One request to a model over real HTTP, in every wire format: the request, and the result of answers that arrive.
// model-call-failures.test.ts has answers that fail the request, model-call-formats.test.ts the parts of one format.

import { requestReply, type ModelAnswer, type WrittenRequest } from '../../activities/model/provider';
import { NOTHING_DECLARED } from '../../workflows/policy/steps';
import { bodyOf } from '../support/scripted-answers';
import { KEY, useModelCalls } from '../support/model-calls';
import { answer, startScriptedModel, type ScriptedAnswer } from '../support/scripted-model-server';
import { ALL_FORMATS, WIRE_FORMATS, wordOf } from '../support/wire-formats';

const SILENT = NOTHING_DECLARED;
const KNOWN_USAGE = { inputTokens: 120, outputTokens: 30 };

describe.each(ALL_FORMATS)('%s', (format) => {
  const calls = useModelCalls(format);
  const { path, keyHeader } = WIRE_FORMATS[format];
  const named = (finishReason: string): string => wordOf(format, finishReason);

  const replied = (
    text: string | null,
    changes: Partial<Extract<ModelAnswer, { kind: 'reply' }>> = {},
  ): ModelAnswer => ({
    kind: 'reply',
    reply: { ...SILENT, reply: text },
    usage: KNOWN_USAGE,
    finishReason: named('stop'),
    ...changes,
  });

  describe('the request', () => {
    test('carries the key and the prompt by role, and does not ask for a stream', async () => {
      await calls.callGiven(answer.reply('ok'));
      const [request] = calls.model.requests;
      expect(request).toMatchObject({
        path,
        method: 'POST',
        headers: { ...keyHeader(KEY), 'content-type': 'application/json' },
      });
      expect(request?.textOf('system')).toBe('You are scribe.');
      expect(request?.textOf('user')).toBe('Someone wrote: hi');
      expect(request?.body).not.toHaveProperty('stream');
    });

    test('has the key only in its header', async () => {
      await calls.callGiven(answer.reply('ok'));
      const [request] = calls.model.requests;
      const holding = Object.values(request?.headers ?? {}).filter((value) => String(value).includes(KEY));
      expect(holding).toHaveLength(1);
      expect(JSON.stringify(request?.body) + request?.path).not.toContain(KEY);
    });

    test('is well-formed even if a cut split an emoji', async () => {
      await calls.call({ prompt: { system: 'a\uD83D', user: '\uDE80b\0 🚀' } });
      expect(calls.model.requests[0]?.textOf('system')).toBe('a\uFFFD');
      expect(calls.model.requests[0]?.textOf('user')).toBe('\uFFFDb\uFFFD 🚀');
    });

    test('is prepared without a connection: of two prepared requests the provider gets only the sent one', async () => {
      const [dropped, sent] = ['never sent', 'sent'].map((user) =>
        calls.write({ prompt: { system: 'Be brief.', user } }),
      );
      expect((await dropped?.post)?.body).toContain('never sent');
      expect((await sent?.post)?.body).not.toContain(KEY);
      expect(calls.model.connections).toBe(0);
      calls.model.script(answer.reply('ok'));
      const options = { signal: new AbortController().signal, timeoutMs: 5_000 };
      expect(await requestReply(sent as WrittenRequest, KEY, options)).toEqual(replied('ok'));
      expect(calls.model.requests.map((request) => request.textOf('user'))).toEqual(['sent']);
    });

    test('that cannot be serialized is refused, and nothing is sent', async () => {
      const outcome = await calls.call({ prompt: { system: 'Be brief.', user: undefined as unknown as string } });
      expect(outcome).toEqual({ kind: 'refused', code: 'malformed_request', status: null, providerCode: null });
      expect(calls.model.connections).toBe(0);
    });

    test.each(['', '/', '/v1', '/v1/', path])('reaches the right path from the base URL "host%s"', async (end) => {
      await calls.callGiven(answer.reply('ok'), { baseUrl: calls.model.origin + end });
      expect(calls.model.requests[0]?.path).toBe(path);
    });

    test('is not sent to an unusable address or with an unusable key, and the result contains neither', async () => {
      const host = calls.model.origin.replace('http://', '');
      for (const baseUrl of [
        `${calls.model.url}?key=canary`,
        `http://canary:canary@${host}/v1`,
        'ftp://canary',
        'canary',
      ]) {
        const outcome = await calls.call({ baseUrl });
        expect(outcome).toEqual({ kind: 'refused', code: 'address_refused', status: null, providerCode: null });
      }
      for (const apiKey of ['', 'canary\ncanary', '“canary”']) {
        const outcome = await calls.call({ apiKey });
        expect(outcome).toEqual({ kind: 'refused', code: 'key_rejected', status: null, providerCode: null });
      }
      expect(calls.model.connections).toBe(0);
      await calls.callGiven(answer.reply('ok'), { apiKey: ` ${KEY}\n` });
      expect(calls.model.requests[0]?.headers).toMatchObject(keyHeader(KEY));
    });

    test('does not use a proxy of the environment', async () => {
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
      ['without a reply text', answer.reply({ reply: null }), replied(null)],
      ['with a leading reasoning block', answer.reply('<think>canary</think>Done.'), replied('Done.')],
      [
        'with reasoning in a separate field',
        answer.message({ content: 'Done.', reasoning_content: 'canary' }),
        replied('Done.'),
      ],
      ['with NUL and a lone surrogate', answer.reply('a\0b\uD800c'), replied('a\uFFFDb\uFFFDc')],
      [
        'with an unknown finish reason',
        answer.reply('hi', { finishReason: 'cosmic_ray' }),
        replied('hi', { finishReason: 'cosmic_ray' }),
      ],
      [
        'with a finish reason that is not a short word',
        answer.reply('hi', { finishReason: 'canary canary' }),
        replied('hi', { finishReason: null }),
      ],
      ['without a finish reason', answer.reply('hi', { finishReason: null }), replied('hi', { finishReason: null })],
      [
        'with text beside a tool call',
        answer.message({ content: 'hi', tool_calls: [{ id: '1', type: 'function', function: { name: 'f' } }] }),
        replied('hi'),
      ],
      ['from a server that compresses unasked', answer.gzip(answer.reply('hi')), replied('hi')],
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
        'with the end mark of a stream appended to it',
        answer.raw(200, `${String(bodyOf(answer.reply('hi'), format))}\n\ndata: [DONE]\n\n`, {
          'content-type': 'text/event-stream',
        }),
        replied('hi'),
      ],
      [
        'that begins with a byte-order mark',
        answer.raw(200, `\uFEFF${String(bodyOf(answer.reply('hi'), format))}`),
        replied('hi'),
      ],
    ])('%s', async (_how, scripted, expected) => {
      expect(await calls.callGiven(scripted)).toEqual(expected);
    });

    test.each<[string, unknown, object]>([
      ['complete', { input: 120, output: 30 }, KNOWN_USAGE],
      ['absent', undefined, { inputTokens: null, outputTokens: null }],
      ['null', null, { inputTokens: null, outputTokens: null }],
      ['as text', { input: 'canary', output: '30' }, { inputTokens: null, outputTokens: null }],
      ['a word', 'canary', { inputTokens: null, outputTokens: null }],
      ['without one count', { input: 27, output: undefined }, { inputTokens: 27, outputTokens: null }],
      ['negative or broken', { input: -1, output: 1.5 }, { inputTokens: null, outputTokens: null }],
      ['too large for a column', { input: 1e12, output: 0 }, { inputTokens: null, outputTokens: 0 }],
    ])('with usage %s is a reply, and an unknown count is null, not zero', async (_how, usage, expected) => {
      expect(await calls.callGiven(answer.reply('hi', { usage }))).toEqual(replied('hi', { usage: expected as never }));
    });
  });

  describe('an answer that is not a reply', () => {
    const empty = (finishReason: string | null) => ({
      kind: 'failed',
      code: 'reply_empty',
      usage: KNOWN_USAGE,
      finishReason,
    });
    const declined = { kind: 'refused', code: 'model_declined', status: 200 };

    test.each<[string, ScriptedAnswer, object]>([
      ['empty text', answer.reply(''), empty(named('stop'))],
      ['null', answer.message({ content: null }), empty(named('stop'))],
      ['spaces', answer.reply('  \n'), empty(named('stop'))],
      ['a zero-width space', answer.reply('\u200B'), empty(named('stop'))],
      ['no content at all', answer.message({}), empty(named('stop'))],
      [
        'a tool call and no text',
        answer.message({ content: null, tool_calls: [{ id: '1' }] }, { finishReason: 'tool_calls' }),
        empty(named('tool_calls')),
      ],
      ['a think block without an end', answer.reply('<think>canary'), empty(named('stop'))],
      [
        'declared JSON that breaks the schema',
        answer.reply('{"reply":"canary","approve":true}'),
        { ...empty(named('stop')), code: 'reply_invalid' },
      ],
      [
        'a reply over the limit',
        answer.reply('🚀'.repeat(150_000)),
        { ...empty(named('stop')), code: 'reply_too_long' },
      ],
      [
        'cut off, though its JSON parses',
        answer.reply({ reply: 'canary' }, { finishReason: 'length' }),
        { ...empty(named('length')), code: 'reply_truncated' },
      ],
      [
        'cut off before any text',
        answer.reply('', { finishReason: 'length' }),
        { ...empty(named('length')), code: 'reply_truncated' },
      ],
      ['a refusal finish reason', answer.reply('', { finishReason: 'refusal' }), declined],
      ['a content filter', answer.reply('', { finishReason: 'content_filter' }), declined],
      ['text that a content filter cut', answer.reply('canary', { finishReason: 'content_filter' }), declined],
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
    ])('the limit covers the whole request: %s', async (_what, scripted) => {
      expect(await calls.callGiven(scripted, { timeoutMs: 1_000 })).toEqual(timedOut);
      await expectHangUp();
    });

    test('the abort signal ends a request in flight, and the provider sees the disconnect', async () => {
      const cancel = new AbortController();
      calls.model.script(answer.hold());
      const pending = calls.call({ signal: cancel.signal });
      await calls.model.waitForRequests(1);
      cancel.abort(new Error('canary'));
      expect(await pending).toEqual({ kind: 'aborted' });
      await expectHangUp();
      expect(calls.model.requests).toHaveLength(1);
    });

    test('a signal that was aborted before the call sends nothing', async () => {
      expect(await calls.call({ signal: AbortSignal.abort() })).toEqual({ kind: 'aborted' });
      expect(calls.model.connections).toBe(0);
    });

    test('a reply that has arrived is kept if the signal is aborted later', async () => {
      const cancel = new AbortController();
      calls.model.script('paid for');
      const outcome = await calls.call({ signal: cancel.signal });
      cancel.abort();
      expect(outcome).toEqual(replied('paid for'));
    });

    async function expectHangUp(): Promise<void> {
      for (let tries = 0; tries < 100 && calls.model.requests[0]?.aborted !== true; tries += 1) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      expect(calls.model.requests[0]?.aborted).toBe(true);
    }
  });

  test('forty concurrent calls do not mix keys, prompts and answers', async () => {
    calls.model.respond((request) => `${JSON.stringify(request.headers)} sent ${request.textOf('user')}`);
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        calls.call({ apiKey: `key-${n}-`, model: 'm', prompt: { system: '', user: `prompt ${n}-` } }),
      ),
    );
    answers.forEach((outcome, n) => {
      expect(outcome).toMatchObject({ kind: 'reply', reply: { reply: expect.stringContaining(`key-${n}-`) } });
      expect(outcome).toMatchObject({ reply: { reply: expect.stringContaining(`sent prompt ${n}-`) } });
    });
    expect(calls.model.requests).toHaveLength(40);
  });
});
