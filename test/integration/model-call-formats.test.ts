// The parts that only one wire format has: its request for a JSON schema, its token counts, its marks of an incomplete or
// missing answer, and its documented errors.

import { REPLY_JSON_SCHEMA } from '../../activities/model/reply';
import { CANARY, useModelCalls } from '../support/model-calls';
import { answer, type ScriptedAnswer } from '../support/scripted-model-server';

const ALL_KEYS = ['reply', 'memory', 'task_updates', 'tasks_to_send'];

const retry = (code: string) => ({ kind: 'retry', code });
const refused = (code: string) => ({ kind: 'refused', code });
const failed = (code: string) => ({ kind: 'failed', code });
const replied = (reply: string) => ({ kind: 'reply', reply: { reply } });

describe('Chat Completions requests', () => {
  const calls = useModelCalls('openai_compatible');

  test('send the schema as a response format', async () => {
    await calls.callGiven(answer.reply('ok'), { maxOutputTokens: 900 });
    expect(calls.model.requests[0]?.body).toEqual({
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
    });
  });

  test.each<[string, unknown, object]>([
    ['no choice', { choices: [] }, retry('unreadable_answer')],
    ['choices null', { choices: null }, retry('unreadable_answer')],
    ['a choice without a message', { choices: [{}] }, retry('unreadable_answer')],
    [
      'an error in its choice',
      { choices: [{ error: { code: 502, message: CANARY }, message: {} }] },
      retry('server_error'),
    ],
  ])('with %s', async (_what, body, expected) => {
    expect(await calls.callGiven(answer.json(200, body))).toMatchObject(expected);
  });
});

describe('OpenAI Responses requests', () => {
  const calls = useModelCalls('openai');
  const text = (content: string) => ({ type: 'output_text', text: content, annotations: [] });
  const message = (said: string, more: object = {}) => ({
    type: 'message',
    role: 'assistant',
    id: 'msg_1',
    content: [text(said)],
    ...more,
  });
  const response = (fields: object): ScriptedAnswer =>
    answer.json(200, { id: 'resp_1', object: 'response', status: 'completed', error: null, output: [], ...fields });

  test('send the schema as a text format, and ask the provider not to store them', async () => {
    await calls.callGiven(answer.reply('ok'), { maxOutputTokens: 900 });
    expect(calls.model.requests[0]?.body).toMatchObject({
      model: 'gpt-5',
      max_output_tokens: 900,
      store: false,
      input: [
        { role: 'developer', content: 'You are scribe.' },
        { role: 'user', content: [{ type: 'input_text', text: 'Someone wrote: hi' }] },
      ],
      text: { format: { type: 'json_schema', name: 'reply', strict: true, schema: REPLY_JSON_SCHEMA } },
    });
    expect(calls.model.requests[0]?.body).not.toHaveProperty('tools');
  });

  test.each<[string, ScriptedAnswer, object]>([
    ['no output', response({ output: null }), retry('unreadable_answer')],
    ['an empty output', response({ output: [] }), failed('reply_empty')],
    ['only reasoning', response({ output: [{ type: 'reasoning', id: 'rs', summary: [] }] }), failed('reply_empty')],
    [
      'an item of an unknown type before its message',
      response({ output: [{ type: 'x', text: 'canary' }, message('hi')] }),
      replied('hi'),
    ],
    [
      'comments before the answer',
      response({ output: [message('canary', { phase: 'commentary' }), message('hi', { phase: 'final_answer' })] }),
      replied('hi'),
    ],
    [
      'two answers, of which the later counts',
      response({ output: [message('{"reply":"canary"}'), message('{"reply":"hi"}')] }),
      replied('hi'),
    ],
    ['text in two parts', response({ output: [message('', { content: [text('h'), text('i')] })] }), replied('hi')],
    [
      'too few tokens to finish',
      response({
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        output: [message('{"reply":"canary"}')],
      }),
      failed('reply_truncated'),
    ],
    [
      'an incomplete answer without a reason',
      response({ status: 'incomplete', incomplete_details: null, output: [message('{"reply":"canary"}')] }),
      failed('reply_truncated'),
    ],
    [
      'an incomplete answer with an unknown reason',
      response({ status: 'incomplete', incomplete_details: { reason: 'cosmic_ray' }, output: [message('canary')] }),
      failed('reply_truncated'),
    ],
    [
      'a content filter',
      response({
        status: 'incomplete',
        incomplete_details: { reason: 'content_filter' },
        output: [message('canary')],
      }),
      refused('model_declined'),
    ],
    [
      'a refusal',
      response({ output: [message('', { content: [{ type: 'refusal', refusal: 'canary' }] })] }),
      refused('model_declined'),
    ],
    ['an answer that is still in progress', response({ status: 'in_progress' }), retry('server_error')],
    ['an answer that was cancelled', response({ status: 'cancelled' }), retry('server_error')],
    [
      'a failure of the server',
      response({ status: 'failed', error: { code: 'server_error', message: CANARY } }),
      retry('server_error'),
    ],
    ['a failure without an error', response({ status: 'failed' }), retry('server_error')],
    [
      'a rate limit',
      response({ status: 'failed', error: { code: 'rate_limit_exceeded', message: CANARY } }),
      retry('rate_limit'),
    ],
    [
      'a prompt that broke a policy',
      response({ status: 'failed', error: { code: 'invalid_prompt', message: CANARY } }),
      refused('model_declined'),
    ],
  ])('with %s', async (_what, scripted, expected) => {
    expect(await calls.callGiven(scripted)).toMatchObject(expected);
  });

  test('get totals that include cached input and reasoning', async () => {
    const usage = {
      input_tokens: 120,
      input_tokens_details: { cached_tokens: 100 },
      output_tokens: 30,
      output_tokens_details: { reasoning_tokens: 25 },
    };
    expect(await calls.callGiven(response({ output: [message('hi')], usage }))).toMatchObject({
      usage: { inputTokens: 120, outputTokens: 30 },
    });
  });
});

describe('Anthropic Messages requests', () => {
  const calls = useModelCalls('anthropic');
  const said = (fields: object): ScriptedAnswer =>
    answer.json(200, {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'hi' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
      ...fields,
    });
  const error = (status: number, type: string, message = CANARY): ScriptedAnswer =>
    answer.json(status, { type: 'error', error: { type, message }, request_id: 'req_1' });

  test('send the schema as an output format', async () => {
    await calls.callGiven(answer.reply('ok'), { model: 'claude-sonnet-4-5' });
    const [request] = calls.model.requests;
    expect(request?.headers['anthropic-version']).toBe('2023-06-01');
    expect(request?.body).toMatchObject({
      model: 'claude-sonnet-4-5',
      max_tokens: 16_384,
      system: [{ type: 'text', text: 'You are scribe.' }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Someone wrote: hi' }] }],
      output_config: {
        format: { type: 'json_schema', schema: { type: 'object', additionalProperties: false, required: ALL_KEYS } },
      },
    });
  });

  test.each(['claude-3-haiku-20240307', 'claude-3-5-sonnet-latest', 'some-other-model'])(
    'to a model without schema support (%s) ask for JSON in words, within its output limit',
    async (model) => {
      await calls.callGiven(answer.reply('ok'), { model });
      const [request] = calls.model.requests;
      expect(request?.body).toMatchObject({ model, max_tokens: 4_096 });
      expect(request?.body).not.toHaveProperty('output_config');
    },
  );

  test.each(['claude-sonnet-4-5', 'claude-opus-4-1', 'claude-3-haiku-20240307', 'claude-of-tomorrow', 'x'])(
    'never force a tool call: %s',
    async (model) => {
      await calls.callGiven(answer.reply('ok'), { model });
      expect(calls.model.requests[0]?.body).not.toHaveProperty('tools');
      expect(calls.model.requests[0]?.body).not.toHaveProperty('tool_choice');
    },
  );

  test('use the output limit of the caller', async () => {
    await calls.callGiven(answer.reply('ok'), { maxOutputTokens: 900 });
    expect(calls.model.requests[0]?.body).toMatchObject({ max_tokens: 900 });
  });

  test.each<[string, ScriptedAnswer, object]>([
    ['no content', said({ content: null }), retry('unreadable_answer')],
    ['an empty list', said({ content: [] }), failed('reply_empty')],
    ['content as text, as some servers send it', said({ content: 'hi' }), replied('hi')],
    [
      'text in two blocks around an unknown one',
      said({
        content: [
          { type: 'text', text: 'h' },
          { type: 'x', text: 'canary' },
          { type: 'text', text: 'i' },
        ],
      }),
      replied('hi'),
    ],
    [
      'thinking in separate blocks',
      said({
        content: [
          { type: 'thinking', thinking: 'canary', signature: 'x' },
          { type: 'redacted_thinking', data: 'canary' },
          { type: 'text', text: 'hi' },
        ],
      }),
      replied('hi'),
    ],
    ['a refusal and no content', said({ content: [], stop_reason: 'refusal' }), refused('model_declined')],
    ['a refusal after some text', said({ stop_reason: 'refusal' }), refused('model_declined')],
    ['too few tokens to finish', said({ stop_reason: 'max_tokens' }), failed('reply_truncated')],
    ['a full context window', said({ stop_reason: 'model_context_window_exceeded' }), failed('reply_truncated')],
    ['an unknown stop reason', said({ stop_reason: 'cosmic_ray' }), replied('hi')],
    ['an error with status 200', error(200, 'overloaded_error'), retry('overloaded')],
    ['a refused key with status 200', error(200, 'authentication_error'), refused('key_rejected')],
    ['a malformed request with status 200', error(200, 'invalid_request_error'), refused('malformed_request')],
  ])('with %s', async (_what, scripted, expected) => {
    expect(await calls.callGiven(scripted)).toMatchObject(expected);
  });

  test.each<[number, string, string, object]>([
    [400, 'invalid_request_error', CANARY, refused('malformed_request')],
    [400, 'invalid_request_error', 'Your credit balance is too low to access the API.', refused('spending_limit')],
    [400, 'invalid_request_error', 'You have reached your specified API usage limits.', refused('spending_limit')],
    [400, 'invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum', refused('context_too_long')],
    [401, 'authentication_error', CANARY, refused('key_rejected')],
    [402, 'billing_error', CANARY, refused('spending_limit')],
    [403, 'permission_error', CANARY, refused('key_rejected')],
    [404, 'not_found_error', CANARY, refused('unknown_model')],
    [413, 'request_too_large', CANARY, refused('context_too_long')],
    [429, 'rate_limit_error', CANARY, retry('rate_limit')],
    [500, 'api_error', CANARY, retry('server_error')],
    [504, 'timeout_error', CANARY, retry('timeout')],
    [529, 'overloaded_error', CANARY, retry('overloaded')],
  ])('%i %s with the message %s', async (status, type, message, expected) => {
    expect(await calls.callGiven(error(status, type, message))).toMatchObject({
      ...expected,
      status,
      providerCode: type,
    });
  });

  test.each<[string, object, object]>([
    [
      'count as input',
      { input_tokens: 7, cache_creation_input_tokens: 100, cache_read_input_tokens: 1_000, output_tokens: 3 },
      { inputTokens: 1_107, outputTokens: 3 },
    ],
    [
      'may be null',
      { input_tokens: 7, cache_creation_input_tokens: null, cache_read_input_tokens: null, output_tokens: 3 },
      { inputTokens: 7, outputTokens: 3 },
    ],
    ['may be absent', { input_tokens: 7, output_tokens: 3 }, { inputTokens: 7, outputTokens: 3 }],
    [
      'that are not numbers make the input unknown',
      { input_tokens: 7, cache_read_input_tokens: 'many', output_tokens: 3 },
      { inputTokens: null, outputTokens: 3 },
    ],
    [
      'alone do not make the input known',
      { cache_read_input_tokens: 7, output_tokens: 3 },
      { inputTokens: null, outputTokens: 3 },
    ],
  ])('tokens written to a cache and read from it %s', async (_how, usage, expected) => {
    expect(await calls.callGiven(said({ usage }))).toMatchObject({ usage: expected });
  });
});
