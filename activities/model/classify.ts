// What a provider's answer means for the run: retry or give up. The only table of this decision. Status and structured
// codes decide. Free text is not searched, because it may quote the user or the key; only the start of a sentence
// counts, where a provider sends no code.

import type { RefusalCode, RetryCode } from '../../workflows/contract';
import { ADDRESS_REFUSED } from './exchange';

export type Verdict = { kind: 'retry'; code: RetryCode } | { kind: 'refused'; code: RefusalCode };

/** The structured part of an error body. Never leaves this folder. */
export interface ErrorFacts {
  /** `error.code`, `error.type` and similar fields, the most specific first. */
  readonly codes: readonly string[];
  /** A status in the body; some routers send it with HTTP 200. */
  readonly status: number | null;
  /** The request field that the error is about. */
  readonly param: string | null;
  /** A router reports that a content filter stopped the prompt. */
  readonly flagged: boolean;
  /** Read only for the errors that have no code of their own; see `SENTENCES`. */
  readonly message: string | null;
}

export const NO_FACTS: ErrorFacts = { codes: [], status: null, param: null, flagged: false, message: null };

const retry = (code: RetryCode): Verdict => ({ kind: 'retry', code });
const refused = (code: RefusalCode): Verdict => ({ kind: 'refused', code });

/** Codes and types by meaning, in lower case. */
const CODES_BY_REFUSAL: Readonly<Partial<Record<RefusalCode, readonly string[]>>> = {
  quota: ['insufficient_quota', 'insufficient_user_quota', 'quota_exceeded', 'exceeded_current_quota_error'],
  spending_limit: [
    'billing_hard_limit_reached',
    'billing_not_active',
    'billing_error',
    'insufficient_balance',
    'insufficient_credits',
    'insufficient_funds',
    'credit_balance_too_low',
    'payment_required',
    'spending_limit_exceeded',
    'spend_limit_exceeded',
    'arrearage',
  ],
  key_rejected: [
    'invalid_api_key',
    'incorrect_api_key',
    'api_key_invalid',
    'invalid_authentication',
    'invalid_authentication_error',
    'authentication_error',
    'permission_error',
    'permission_denied',
    'unauthenticated',
    'account_deactivated',
    'account_disabled',
  ],
  unknown_model: [
    'model_not_found',
    'model_not_available',
    'model_not_supported',
    'model_decommissioned',
    'model_deprecated',
    'unknown_model',
    'unsupported_model',
    'invalid_model',
    'invalid_model_id',
    'modelnotfound',
    'deploymentnotfound',
    'not_found_error',
    'notfounderror',
  ],
  context_too_long: [
    'context_length_exceeded',
    'context_window_exceeded',
    'model_max_prompt_tokens_exceeded',
    'tokens_limit_reached',
    'exceed_context_size_error',
    'request_too_large',
    'string_above_max_length',
  ],
  // OpenAI sends `invalid_prompt` for a prompt that violates its usage policy.
  model_declined: ['content_filter', 'content_policy_violation', 'responsibleaipolicyviolation', 'invalid_prompt'],
};

const CODES_BY_RETRY: Readonly<Partial<Record<RetryCode, readonly string[]>>> = {
  rate_limit: [
    'rate_limit',
    'rate_limit_exceeded',
    'rate_limit_error',
    'too_many_requests',
    'throttlingexception',
    'resource_exhausted',
  ],
  overloaded: ['overloaded', 'overloaded_error', 'engine_overloaded_error', 'service_unavailable', 'unavailable'],
  timeout: ['timeout', 'timeout_error', 'request_timeout', 'deadline_exceeded'],
  server_error: ['server_error', 'internal_server_error', 'internal_error', 'internal', 'api_error'],
};

const VERDICT_BY_CODE: ReadonlyMap<string, Verdict> = new Map([
  ...toPairs(CODES_BY_REFUSAL, refused),
  ...toPairs(CODES_BY_RETRY, retry),
]);

function toPairs<C extends string>(
  table: Readonly<Partial<Record<C, readonly string[]>>>,
  verdict: (code: C) => Verdict,
) {
  return Object.entries(table).flatMap(([meaning, codes]) =>
    (codes as readonly string[]).map((code) => [code, verdict(meaning as C)] as const),
  );
}

/** The meaning of an error: an error status, or an error body with a success status. */
export function classifyError(status: number, facts: ErrorFacts): Verdict {
  const byCode = facts.codes
    .map((code) => VERDICT_BY_CODE.get(code.toLowerCase()))
    .find((known) => known !== undefined);

  // With a success status, the body decides. If the body has no known code either, the server failed.
  if (status >= 200 && status <= 299) {
    const inside = facts.status;
    if (inside !== null && inside >= 400 && inside <= 599) return classifyError(inside, facts);
    if (byCode !== undefined) return byCode;
    return facts.codes.includes(INVALID_REQUEST) ? classifyError(400, facts) : retry('server_error');
  }
  if (status >= 300 && status <= 399) return refused('redirect');
  if (status >= 500) return classifyServerStatus(status);
  switch (status) {
    case 408:
      return retry('timeout');
    case 409:
      return retry('server_error');
    case 429:
      // An account without credit has the status of a rate limit; only the code differs.
      return byCode?.code === 'quota' || byCode?.code === 'spending_limit' ? byCode : retry('rate_limit');
    case 400:
      if (byCode !== undefined) return byCode;
      break;
    default:
      if (byCode?.kind === 'refused') return byCode;
  }
  if (facts.flagged) return refused('model_declined');
  if (facts.param === 'model') return refused('unknown_model');
  switch (status) {
    case 401:
    case 403:
      return refused('key_rejected');
    case 402:
      return refused('spending_limit');
    case 404:
      return refused('unknown_model');
    case 413:
      return refused('context_too_long');
    default:
      return refused(codeOfSentence(status, facts) ?? 'malformed_request');
  }
}

/** The status of a failing server decides alone: a gateway's error page can quote anything. */
function classifyServerStatus(status: number): Verdict {
  switch (status) {
    case 503:
    case 529:
      return retry('overloaded');
    case 504:
    case 522:
    case 524:
      return retry('timeout');
    default:
      return retry('server_error');
  }
}

const INVALID_REQUEST = 'invalid_request_error';

/**
 * Anthropic sends these as a malformed request, 400 `invalid_request_error`; only the sentence differs. Only its start
 * counts, because a message that quotes the prompt starts differently.
 */
const SENTENCES: readonly (readonly [start: string, code: RefusalCode])[] = [
  ['Your credit balance is too low', 'spending_limit'],
  ['You have reached your specified API usage limits', 'spending_limit'],
  ['prompt is too long: ', 'context_too_long'],
  ['input length and `max_tokens` exceed context limit', 'context_too_long'],
  ['model: ', 'unknown_model'],
];

function codeOfSentence(status: number, facts: ErrorFacts): RefusalCode | null {
  if (status !== 400 || !facts.codes.includes(INVALID_REQUEST)) return null;
  return SENTENCES.find(([start]) => facts.message?.startsWith(start))?.[1] ?? null;
}

/** The meaning of a failed connection, by the system's error code. */
export function classifyConnectionFailure(errorCode: string | null): Verdict {
  switch (errorCode) {
    case ADDRESS_REFUSED:
      return refused('address_refused');
    // The name does not exist. EAI_AGAIN means that the name server did not answer, and is retried.
    case 'ENOTFOUND':
      return refused('unknown_host');
    case null:
      return retry('connection');
    default:
      if (isCertificateCode(errorCode)) return refused('bad_certificate');
      // HPE: the connection is fine, and the answer is not readable as HTTP.
      return retry(errorCode.startsWith('HPE_') ? 'unreadable_answer' : 'connection');
  }
}

/** OpenSSL's verification results, as Node names them. */
const CERTIFICATE_CODES: ReadonlySet<string> = new Set([
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_GET_CRL',
  'UNABLE_TO_DECRYPT_CERT_SIGNATURE',
  'UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'ERROR_IN_CERT_NOT_BEFORE_FIELD',
  'ERROR_IN_CERT_NOT_AFTER_FIELD',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
  'HOSTNAME_MISMATCH',
  'ERR_TLS_CERT_ALTNAME_INVALID',
]);

function isCertificateCode(code: string): boolean {
  return code.startsWith('CERT_') || CERTIFICATE_CODES.has(code);
}

/** The end of an answer: whole, cut off by the token limit, declined by the model, or interrupted by the server. */
export type AnswerEnd = 'whole' | 'truncated' | 'declined' | 'interrupted';

/**
 * An unknown finish reason ends a whole answer, because providers add reasons and the text is complete. If the server
 * reports that the answer is incomplete, an unknown reason means truncated.
 */
export function classifyFinish(finishReason: string | null, isIncomplete: boolean): AnswerEnd {
  switch (finishReason?.toLowerCase()) {
    case 'length':
    case 'max_tokens':
    case 'max_output_tokens':
    case 'model_length':
    case 'model_context_window_exceeded':
      return 'truncated';
    // A content filter removes parts of the text, so the rest is not the whole reply.
    case 'content_filter':
    case 'refusal':
    case 'safety':
    case 'recitation':
    case 'prohibited_content':
    case 'blocklist':
    case 'spii':
    case 'sensitive':
      return 'declined';
    case 'error':
    case 'failed':
    case 'cancelled':
    // The server has not finished this answer.
    case 'queued':
    case 'in_progress':
      return 'interrupted';
    default:
      return isIncomplete ? 'truncated' : 'whole';
  }
}
