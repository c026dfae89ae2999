// One request to a model over real HTTP, in every wire format, against every observed failure of a provider: failures that
// are retried, the wait before the retry, and failures that are not retried.
//
// Failures that were observed elsewhere, and the tests that cover them:
//   a wait that is unreadable, a date, zero, enormous or in milliseconds    unit/model-retry-after, model-call-waits, here
//   used-up quota as 429, no credit as 400, overload as 529                 here, model-call-formats, model-call-waits
//   no answer in a 200, a page, half a body, a reset, a short body          here; once per run: workflow/model-protocols
//   a stream's end mark, content in parts, tool calls, reasoning, NUL       model-call, unit/model-reply
//   headers at once, then no body or one byte at a time                     model-call; past the limit: cases-duplicates
//   a prompt too long, an unknown model under three statuses                here, unit/model-classify
//   words in a message that must not matter                                 here, unit/model-classify
//   an empty answer, a refusal, an unknown stop reason, a cut-off reply     model-call, model-call-formats
//   a reply over the limit, an emoji cut in two                             model-call
//   pasted keys and base URLs                                               model-call, unit/model-endpoint, api-model-keys
//   missing token counts                                                    model-call, workflow/model-protocols

import dns from 'node:dns/promises';
import https from 'node:https';
import type { AddressInfo } from 'node:net';

import { CANARY, KEY, useModelCalls } from '../../support/model-calls';
import { answer, startScriptedModel, type ScriptedAnswer } from '../../support/scripted-model-server';
import { createSelfSigned } from '../../support/self-signed';
import { FULL_RUN } from '../../support/test-runs';
import { ALL_FORMATS, type WireFormat } from '../../support/wire-formats';

/** The cases that `npm test` runs in every format: one for each part of an answer that differs between formats. */
const IN_EVERY_FORMAT = new Set([
  '429',
  '529',
  '200 with a null answer',
  '200 with a rate limit inside',
  'a reset inside the body',
  'quota by its type',
  'context too long',
  '401 whose code is a sentence',
]);

const isWhole = (format: WireFormat): boolean => FULL_RUN || format === ALL_FORMATS[0];

/** The whole table in one format, and in every format in the full run. */
function casesOf<T extends [string, ...unknown[]]>(format: WireFormat, table: T[]): T[] {
  return isWhole(format) ? table : table.filter(([name]) => IN_EVERY_FORMAT.has(name));
}

describe.each(ALL_FORMATS)('%s', (format) => {
  const calls = useModelCalls(format);
  /** Anthropic has no error code: the error type replaces it. */
  const isAnthropic = format === 'anthropic';

  describe('a failure of the server is retried', () => {
    const again = (code: string, status: number | null = 200, namedWaitMs: number | null = null) => ({
      kind: 'retry',
      code,
      status,
      namedWaitMs,
    });

    test.each(
      casesOf<[string, ScriptedAnswer, object]>(format, [
        [
          '429',
          answer.error(429, 'rate_limit_exceeded'),
          { ...again('rate_limit', 429), providerCode: 'rate_limit_exceeded' },
        ],
        ['408', answer.error(408, null), again('timeout', 408)],
        ['409', answer.error(409, null), again('server_error', 409)],
        ['500', answer.error(500, null), again('server_error', 500)],
        [
          '500 with the message invalid api key',
          answer.json(500, { error: { message: `${CANARY} invalid api key` } }),
          again('server_error', 500),
        ],
        ['502', answer.raw(502, CANARY), again('server_error', 502)],
        ['503 with a page', answer.html(503, CANARY), again('overloaded', 503)],
        ['504', answer.raw(504, ''), again('timeout', 504)],
        ['520', answer.html(520, CANARY), again('server_error', 520)],
        [
          '529',
          answer.json(529, { type: 'error', error: { type: 'overloaded_error', message: CANARY } }),
          { ...again('overloaded', 529), providerCode: 'overloaded_error' },
        ],
        [
          '200 with a null answer',
          answer.json(200, { type: 'message', choices: null, output: null, content: null }),
          again('unreadable_answer'),
        ],
        ['200 without any expected field', answer.json(200, {}), again('unreadable_answer')],
        ['200 with a page', answer.html(200, CANARY), again('unreadable_answer')],
        ['200 with an empty body', answer.raw(200, ''), again('unreadable_answer')],
        ['204', answer.raw(204, ''), again('unreadable_answer', 204)],
        ['200 with JSON that is not an object', answer.raw(200, 'null'), again('unreadable_answer')],
        ['200 with half of the JSON', answer.truncatedJson(CANARY), again('unreadable_answer')],
        [
          '200 with a stream',
          answer.raw(200, 'data: {"choices":[]}\n\ndata: {"choices":[]}\n\ndata: [DONE]\n\n'),
          again('unreadable_answer'),
        ],
        [
          '200 with a rate limit inside',
          answer.json(200, { error: { code: 429, message: CANARY } }),
          { ...again('rate_limit'), providerCode: '429' },
        ],
        ['200 with an error without a code', answer.json(200, { error: { message: CANARY } }), again('server_error')],
        ['200 that ended in an error', answer.reply(CANARY, { finishReason: 'error' }), again('server_error')],
        ['a reset before the answer', answer.resetAtOnce(), again('connection', null)],
        ['a reset inside the body', answer.resetMidBody(CANARY), again('connection', null)],
        ['a body shorter than its length', answer.shortBody(CANARY), again('connection', null)],
        [
          'a body that cannot be decompressed',
          answer.with(answer.reply(CANARY), { headers: { 'content-encoding': 'gzip' } }),
          again('unreadable_answer'),
        ],
        [
          'an unknown content encoding',
          answer.with(answer.reply(CANARY), { headers: { 'content-encoding': 'canary' } }),
          again('unreadable_answer'),
        ],
        ['an answer of 3 MB', answer.reply(CANARY.repeat(300_000)), again('unreadable_answer')],
        [
          'a good answer of 20 MB compressed to 20 kB',
          answer.gzip(answer.reply('x'.repeat(20_000_000))),
          again('unreadable_answer'),
        ],
      ]),
    )('%s', async (_what, scripted, expected) => {
      expect(await calls.callGiven(scripted)).toMatchObject(expected);
    });
    if (!isWhole(format)) return;

    test.each<[string, Record<string, string>, number | null]>([
      ['soon', { 'retry-after': 'soon' }, null],
      ['6m0s', { 'retry-after': '6m0s' }, null],
      ['only a rate-limit reset', { 'x-ratelimit-reset-requests': '6m0s' }, null],
      ['0', { 'retry-after': '0' }, 1],
      ['20', { 'retry-after': '20' }, 20_000],
      ['a past date', { 'retry-after': 'Thu, 01 Jan 2026 00:00:00 GMT' }, 1],
      ['800 ms beside 1 s', { 'retry-after-ms': '800', 'retry-after': '1' }, 800],
      ['2 s alone', { 'retry-after': '2' }, 2000],
    ])('after the wait that the answer names: %s', async (_what, headers, namedWaitMs) => {
      expect(await calls.callGiven(answer.error(429, null, headers))).toMatchObject(
        again('rate_limit', 429, namedWaitMs),
      );
    });

    test('after a date a few seconds in the future', async () => {
      const date = new Date(Date.now() + 15_000).toUTCString();
      const before = Date.now();
      const outcome = await calls.callGiven(answer.error(503, null, { 'retry-after': date }));
      expect(outcome).toMatchObject({ kind: 'retry', namedWaitMs: expect.any(Number) });
      // The date is read between these two times.
      const { namedWaitMs } = outcome as { namedWaitMs: number };
      expect(namedWaitMs).toBeGreaterThanOrEqual(Date.parse(date) - Date.now());
      expect(namedWaitMs).toBeLessThanOrEqual(Date.parse(date) - before);
    });

    test.each(['21', '86400', new Date(Date.now() + 600_000).toUTCString()])(
      'but not within the run if the answer names a wait over 20 s: %s',
      async (wait) => {
        const outcome = await calls.callGiven(answer.error(503, 'overloaded', { 'retry-after': wait }));
        expect(outcome).toMatchObject({ kind: 'busy', code: 'overloaded', status: 503, providerCode: 'overloaded' });
        expect((outcome as { waitMs: number }).waitMs).toBeGreaterThan(20_000);
      },
    );

    test('if no server listens', async () => {
      const gone = await startScriptedModel();
      await gone.stop();
      expect(await calls.call({ baseUrl: gone.url })).toEqual({ ...again('connection', null), providerCode: null });
    });
  });

  describe('a failure that a retry cannot change is refused', () => {
    const refused = (code: string, status: number | null, providerCode?: string | null) => ({
      kind: 'refused',
      code,
      status,
      ...(providerCode === undefined ? {} : { providerCode }),
    });
    const sentence = 'Your credit balance is too low to access the API. canary';
    const inWords = (message: string) => answer.error(400, null, {}, 'invalid_request_error', message);

    test.each(
      casesOf<[string, ScriptedAnswer, object]>(format, [
        [
          'exhausted quota as 429, with any wait',
          answer.error(429, 'insufficient_quota', { 'retry-after': '1' }),
          refused('quota', 429, 'insufficient_quota'),
        ],
        [
          'exhausted quota with a long wait',
          answer.error(429, 'insufficient_quota', { 'retry-after': '86400' }),
          refused('quota', 429),
        ],
        [
          'quota by its type',
          answer.error(429, null, {}, 'insufficient_quota'),
          refused('quota', 429, 'insufficient_quota'),
        ],
        ['no credit as 400', inWords(sentence), refused('spending_limit', 400, 'invalid_request_error')],
        ['402', answer.raw(402, CANARY), refused('spending_limit', 402, null)],
        ['a malformed request', inWords(CANARY), refused('malformed_request', 400)],
        [
          'a 400 whose message mentions rate limits',
          inWords(`${CANARY} rate limit overloaded 429`),
          refused('malformed_request', 400),
        ],
        [
          'context too long',
          answer.error(400, 'context_length_exceeded'),
          refused('context_too_long', 400, 'context_length_exceeded'),
        ],
        ['model not found', answer.error(404, 'model_not_found'), refused('unknown_model', 404, 'model_not_found')],
        [
          'not a valid model, as 400',
          answer.json(400, { error: { message: CANARY, param: 'model', type: 'invalid_request_error' } }),
          refused('unknown_model', 400, 'invalid_request_error'),
        ],
        ['model not supported, as 401', answer.error(401, 'model_not_supported'), refused('unknown_model', 401)],
        ['plain 401', answer.raw(401, CANARY), refused('key_rejected', 401, null)],
        ['plain 403', answer.html(403, CANARY), refused('key_rejected', 403, null)],
        [
          '401 that repeats the key',
          answer.json(401, { error: { message: KEY, code: KEY, type: KEY.slice(0, 12) } }, { 'x-key': KEY }),
          refused('key_rejected', 401, null),
        ],
        [
          '401 whose code is a sentence',
          answer.error(401, 'canary is not a code'),
          refused('key_rejected', 401, isAnthropic ? null : 'scripted_error'),
        ],
        [
          '401 whose body is cut',
          answer.with(answer.error(401, null), { delivery: { how: 'reset_mid_body' } }),
          refused('key_rejected', 401, null),
        ],
        [
          '200 with a rejected key inside',
          answer.json(200, { error: { code: 'invalid_api_key', message: CANARY } }),
          refused('key_rejected', 200, 'invalid_api_key'),
        ],
        [
          '404 in a list, the format of Google',
          answer.json(404, [{ error: { code: 404, status: 'NOT_FOUND', message: CANARY } }]),
          refused('unknown_model', 404, 'NOT_FOUND'),
        ],
      ]),
    )('%s', async (_what, scripted, expected) => {
      expect(await calls.callGiven(scripted)).toMatchObject(expected);
    });
    if (!isWhole(format)) return;

    test('401 whose body never ends', async () => {
      const endless = answer.with(answer.error(401, null), { delivery: { how: 'headers_only' } });
      const outcome = await calls.callGiven(endless, { timeoutMs: 3_000 });
      expect(outcome).toMatchObject(refused('key_rejected', 401, null));
    });

    test.each([301, 302, 303, 307, 308])('a redirect is not followed: %i', async (status) => {
      const other = await startScriptedModel();
      expect(await calls.callGiven(answer.redirect(`${other.url}/canary`, status))).toEqual({
        ...refused('redirect', status, null),
      });
      expect(other.connections).toBe(0);
      await other.stop();
    });

    test('a host that does not exist', async () => {
      const host = 'no-such-host.invalid';
      const failure = await dns.lookup(host).catch((error: NodeJS.ErrnoException) => error.code);
      const outcome = await calls.call({ baseUrl: `https://${host}` });
      // Without a name server, the host cannot be known to be missing.
      if (failure === 'EAI_AGAIN') expect(outcome).toMatchObject({ kind: 'retry', code: 'connection' });
      else expect(outcome).toEqual(refused('unknown_host', null, null));
    });

    test('an untrusted certificate', async () => {
      let requests = 0;
      const server = https.createServer(createSelfSigned('localhost'), () => (requests += 1));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      try {
        const baseUrl = `https://localhost:${(server.address() as AddressInfo).port}`;
        expect(await calls.call({ baseUrl })).toEqual(refused('bad_certificate', null, null));
        expect(requests).toBe(0);
      } finally {
        server.close();
      }
    });
  });
});
