import {
  classifyConnectionFailure,
  classifyError,
  classifyFinish,
  NO_FACTS,
  type ErrorFacts,
} from '../../activities/model/classify';

const judged = (status: number, facts: Partial<ErrorFacts> = {}): string => {
  const verdict = classifyError(status, { ...NO_FACTS, ...facts });
  return `${verdict.kind} ${verdict.code}`;
};

describe('a status alone', () => {
  test.each([
    [429, 'retry rate_limit'],
    [408, 'retry timeout'],
    [409, 'retry server_error'],
    [500, 'retry server_error'],
    [502, 'retry server_error'],
    [503, 'retry overloaded'],
    [504, 'retry timeout'],
    [520, 'retry server_error'],
    [529, 'retry overloaded'],
    [599, 'retry server_error'],
    [999, 'retry server_error'],
    [301, 'refused redirect'],
    [302, 'refused redirect'],
    [303, 'refused redirect'],
    [307, 'refused redirect'],
    [308, 'refused redirect'],
    [400, 'refused malformed_request'],
    [401, 'refused key_rejected'],
    [402, 'refused spending_limit'],
    [403, 'refused key_rejected'],
    [404, 'refused unknown_model'],
    [405, 'refused malformed_request'],
    [413, 'refused context_too_long'],
    [418, 'refused malformed_request'],
    [422, 'refused malformed_request'],
  ])('%i is %s', (status, expected) => {
    expect(judged(status)).toBe(expected);
  });

  test('every status has a class', () => {
    for (let status = 200; status < 1000; status += 1) expect(judged(status)).toMatch(/^(retry|refused) [a-z_]+$/);
  });
});

describe('a structured code beside the status', () => {
  test.each<[number, string[], string]>([
    // Each error that Anthropic documents, with its status.
    [400, ['invalid_request_error'], 'refused malformed_request'],
    [401, ['authentication_error'], 'refused key_rejected'],
    [402, ['billing_error'], 'refused spending_limit'],
    [403, ['permission_error'], 'refused key_rejected'],
    [404, ['not_found_error'], 'refused unknown_model'],
    [413, ['request_too_large'], 'refused context_too_long'],
    [429, ['rate_limit_error'], 'retry rate_limit'],
    [500, ['api_error'], 'retry server_error'],
    [504, ['timeout_error'], 'retry timeout'],
    [529, ['overloaded_error'], 'retry overloaded'],
    [400, ['billing_error'], 'refused spending_limit'],
    [429, ['billing_error'], 'refused spending_limit'],
    [429, ['insufficient_quota'], 'refused quota'],
    [429, ['billing_hard_limit_reached'], 'refused spending_limit'],
    [429, ['rate_limit_exceeded', 'tokens'], 'retry rate_limit'],
    [429, ['invalid_api_key'], 'retry rate_limit'],
    [400, ['billing_hard_limit_reached'], 'refused spending_limit'],
    [400, ['insufficient_quota'], 'refused quota'],
    [400, ['context_length_exceeded', 'invalid_request_error'], 'refused context_too_long'],
    [400, ['model_not_found', 'invalid_request_error'], 'refused unknown_model'],
    [400, ['API_KEY_INVALID'], 'refused key_rejected'],
    [400, ['ThrottlingException'], 'retry rate_limit'],
    [400, ['content_filter'], 'refused model_declined'],
    [401, ['model_not_supported', 'authentication_error'], 'refused unknown_model'],
    [401, ['rate_limit_exceeded'], 'refused key_rejected'],
    [403, ['model_not_found'], 'refused unknown_model'],
    [403, ['insufficient_quota'], 'refused quota'],
    [404, ['model_not_found'], 'refused unknown_model'],
    [422, ['never_seen_before'], 'refused malformed_request'],
    [500, ['invalid_api_key'], 'retry server_error'],
    [503, ['model_not_found'], 'retry overloaded'],
    [400, ['constructor', '__proto__', 'toString'], 'refused malformed_request'],
  ])('%i with %j is %s', (status, codes, expected) => {
    expect(judged(status, { codes })).toBe(expected);
  });

  test('a 400 about the model field means the model', () => {
    expect(judged(400, { param: 'model', codes: ['invalid_request_error'] })).toBe('refused unknown_model');
    expect(judged(400, { param: 'messages', codes: ['invalid_request_error'] })).toBe('refused malformed_request');
  });

  test('a 403 about a flagged prompt from a router is not a rejected key', () => {
    expect(judged(403, { flagged: true })).toBe('refused model_declined');
  });
});

describe('words in the message decide nothing', () => {
  test.each([
    [400, 'refused malformed_request'],
    [500, 'retry server_error'],
  ])('a %i that quotes them', (status, expected) => {
    const message = 'rate limit, overloaded, 429, invalid api key, insufficient_quota, Your credit balance is too low';
    expect(judged(status, { message, codes: ['invalid_request_error'] })).toBe(expected);
  });

  test.each([
    ['Your credit balance is too low to access the API.', 'spending_limit'],
    ['You have reached your specified API usage limits. You will regain access on 2026-12-01.', 'spending_limit'],
    ['prompt is too long: 210000 tokens > 200000 maximum', 'context_too_long'],
    ['input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000', 'context_too_long'],
    ['model: claude-0 is not a valid model', 'unknown_model'],
  ])('unless a known sentence is the only evidence, with its status and type: %s', (message, code) => {
    expect(judged(400, { message, codes: ['invalid_request_error'] })).toBe(`refused ${code}`);
    expect(judged(400, { message: `the error is: ${message}`, codes: ['invalid_request_error'] })).toBe(
      'refused malformed_request',
    );
    expect(judged(400, { message, codes: [] })).toBe('refused malformed_request');
    expect(judged(422, { message, codes: ['invalid_request_error'] })).toBe('refused malformed_request');
    expect(judged(500, { message, codes: ['invalid_request_error'] })).toBe('retry server_error');
  });
});

describe('an error body under a success status', () => {
  test.each<[Partial<ErrorFacts>, string]>([
    [{ status: 429 }, 'retry rate_limit'],
    [{ status: 401 }, 'refused key_rejected'],
    [{ status: 429, codes: ['insufficient_quota'] }, 'refused quota'],
    [{ codes: ['overloaded_error'] }, 'retry overloaded'],
    [{ codes: ['invalid_api_key'] }, 'refused key_rejected'],
    [{ codes: ['invalid_prompt'] }, 'refused model_declined'],
    [{ codes: ['invalid_request_error'] }, 'refused malformed_request'],
    [{ codes: ['invalid_request_error'], message: 'Your credit balance is too low' }, 'refused spending_limit'],
    [{ codes: ['invalid_request_error'], param: 'model' }, 'refused unknown_model'],
    [{ codes: ['never_seen_before'] }, 'retry server_error'],
    [{ status: 200 }, 'retry server_error'],
    [{}, 'retry server_error'],
  ])('%j is %s', (facts, expected) => {
    expect(judged(200, facts)).toBe(expected);
  });
});

describe('a connection that failed', () => {
  test.each([
    ['ENOTFOUND', 'refused unknown_host'],
    ['EAI_AGAIN', 'retry connection'],
    ['ECONNRESET', 'retry connection'],
    ['ECONNREFUSED', 'retry connection'],
    ['EHOSTUNREACH', 'retry connection'],
    ['EPIPE', 'retry connection'],
    ['EPROTO', 'retry connection'],
    ['CERT_HAS_EXPIRED', 'refused bad_certificate'],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'refused bad_certificate'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'refused bad_certificate'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'refused bad_certificate'],
    ['HPE_INVALID_CONSTANT', 'retry unreadable_answer'],
    ['ADDRESS_REFUSED', 'refused address_refused'],
    ['NEVER_SEEN', 'retry connection'],
    [null, 'retry connection'],
  ])('%s is %s', (code, expected) => {
    const verdict = classifyConnectionFailure(code);
    expect(`${verdict.kind} ${verdict.code}`).toBe(expected);
  });
});

test.each([
  ['stop', 'whole'],
  ['tool_calls', 'whole'],
  ['never_seen_before', 'whole'],
  [null, 'whole'],
  ['length', 'truncated'],
  ['MAX_TOKENS', 'truncated'],
  ['content_filter', 'declined'],
  ['refusal', 'declined'],
  ['SAFETY', 'declined'],
  ['error', 'interrupted'],
  // OpenAI Responses
  ['completed', 'whole'],
  ['max_output_tokens', 'truncated'],
  ['failed', 'interrupted'],
  ['cancelled', 'interrupted'],
  ['queued', 'interrupted'],
  ['in_progress', 'interrupted'],
  // Anthropic Messages
  ['end_turn', 'whole'],
  ['stop_sequence', 'whole'],
  ['tool_use', 'whole'],
  ['pause_turn', 'whole'],
  ['model_context_window_exceeded', 'truncated'],
])('finish reason %s: %s', (reason, expected) => {
  expect(classifyFinish(reason, false)).toBe(expected);
});

test.each([
  ['never_seen_before', 'truncated'],
  [null, 'truncated'],
  ['max_output_tokens', 'truncated'],
  ['content_filter', 'declined'],
])('an answer that the server marks as incomplete is not complete, for any reason: %s', (reason, expected) => {
  expect(classifyFinish(reason, true)).toBe(expected);
});
