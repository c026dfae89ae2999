// The meaning of one exchange with a provider. Of the provider's texts, only the reply, codes and counts pass this
// file.

import {
  NAMED_WAIT_LIMIT_MS,
  type DeclaredReply,
  type RefusalCode,
  type ReplyFailureCode,
  type RetryCode,
} from '../../workflows/contract';
import { readBody, readErrorBody, type Envelope, type ModelUsage } from './body';
import { classifyConnectionFailure, classifyError, classifyFinish, NO_FACTS } from './classify';
import type { ErrorFacts, Verdict } from './classify';
import type { Exchange } from './exchange';
import { parseReply } from './reply';
import { parseRetryAfter } from './retry-after';
import type { WireFormat } from './wire-format';

export type ModelAnswer =
  | { kind: 'reply'; reply: DeclaredReply; usage: ModelUsage; finishReason: string | null }
  /** A retry may help. `namedWaitMs` is null when the provider named no wait, and never 0. */
  | {
      kind: 'retry';
      code: RetryCode;
      status: number | null;
      providerCode: string | null;
      namedWaitMs: number | null;
    }
  /** A retry may help, after a wait that is longer than a run waits. */
  | { kind: 'busy'; code: RetryCode; status: number | null; providerCode: string | null; waitMs: number }
  | { kind: 'refused'; code: RefusalCode; status: number | null; providerCode: string | null }
  /** The model answered, and the answer is not usable. */
  | { kind: 'failed'; code: ReplyFailureCode; usage: ModelUsage; finishReason: string | null }
  /** Our own signal ended the exchange, not the time limit. */
  | { kind: 'aborted' };

/** An exchange whose body was read. */
export type ParsedResponse =
  | { kind: 'unanswered'; exchange: Exclude<Exchange, { kind: 'answered' }> }
  | { kind: 'envelope'; envelope: Envelope; status: number }
  | { kind: 'verdict'; verdict: Verdict; exchange: Exchange; facts: ErrorFacts };

const UNREADABLE = { kind: 'retry', code: 'unreadable_answer' } as const satisfies Verdict;

/** Reads the body of an exchange, in the given wire format. */
export function parseResponse(exchange: Exchange, format: WireFormat): ParsedResponse {
  if (exchange.kind !== 'answered') return { kind: 'unanswered', exchange };
  if (exchange.status < 200 || exchange.status > 299) {
    const facts = readErrorBody(exchange.body);
    return { kind: 'verdict', verdict: classifyError(exchange.status, facts), exchange, facts };
  }
  const body = readBody(exchange.body, format.readEnvelope);
  switch (body.kind) {
    case 'unreadable':
      return { kind: 'verdict', verdict: UNREADABLE, exchange, facts: NO_FACTS };
    case 'error':
      return { kind: 'verdict', verdict: classifyError(exchange.status, body.facts), exchange, facts: body.facts };
    case 'answer':
      return { kind: 'envelope', envelope: body.envelope, status: exchange.status };
  }
}

/** The meaning of a response for a run. No word of the provider that is a part of `key` is returned. */
export function toModelAnswer(response: ParsedResponse, key: string): ModelAnswer {
  switch (response.kind) {
    case 'unanswered':
      return answerOfExchange(response.exchange);
    case 'verdict':
      return answerOfVerdict(response.verdict, response.exchange, providerCodeOf(response.facts, key));
    case 'envelope':
      return answerOfEnvelope(response.envelope, response.status, key);
  }
}

function answerOfExchange(exchange: Exclude<Exchange, { kind: 'answered' }>): ModelAnswer {
  switch (exchange.kind) {
    case 'aborted':
      return { kind: 'aborted' };
    case 'timeout':
      return answerOfVerdict({ kind: 'retry', code: 'timeout' }, exchange, null);
    case 'connection_failed':
      return answerOfVerdict(classifyConnectionFailure(exchange.errorCode), exchange, null);
  }
}

function answerOfEnvelope(envelope: Envelope, status: number, key: string): ModelAnswer {
  const finishReason = toToken(envelope.finishReason, key);
  const { usage } = envelope;
  if (envelope.hasRefusal) return { kind: 'refused', code: 'model_declined', status, providerCode: finishReason };
  switch (classifyFinish(envelope.finishReason, envelope.isIncomplete)) {
    case 'declined':
      return { kind: 'refused', code: 'model_declined', status, providerCode: finishReason };
    case 'interrupted':
      return { kind: 'retry', code: 'server_error', status, providerCode: null, namedWaitMs: null };
    // Even when the JSON can be parsed: the part that was cut off may have declared more work.
    case 'truncated':
      return { kind: 'failed', code: 'reply_truncated', usage, finishReason };
    case 'whole':
  }
  const parsed = parseReply(envelope.text);
  return parsed.ok
    ? { kind: 'reply', reply: parsed.reply, usage, finishReason }
    : { kind: 'failed', code: parsed.code, usage, finishReason };
}

function answerOfVerdict(verdict: Verdict, exchange: Exchange, providerCode: string | null): ModelAnswer {
  const status = exchange.kind === 'answered' ? exchange.status : null;
  if (verdict.kind === 'refused') return { kind: 'refused', code: verdict.code, status, providerCode };
  const namedWaitMs = exchange.kind === 'answered' ? parseRetryAfter(exchange, Date.now()) : null;
  const { code } = verdict;
  return namedWaitMs !== null && namedWaitMs > NAMED_WAIT_LIMIT_MS
    ? { kind: 'busy', code, status, providerCode, waitMs: namedWaitMs }
    : { kind: 'retry', code, status, providerCode, namedWaitMs };
}

function providerCodeOf(facts: ErrorFacts, key: string): string | null {
  for (const code of [...facts.codes, facts.status === null ? null : String(facts.status)]) {
    const token = toToken(code, key);
    if (token !== null) return token;
  }
  return null;
}

/** A shorter piece of a key reveals nothing. The check would also drop words like "stop" and "400" by chance. */
const KEY_PART_LENGTH = 8;

/** A provider's word, when it is one short word and contains no part of the key. Null otherwise. */
function toToken(word: string | null, key: string): string | null {
  if (word === null || !/^[A-Za-z0-9_.-]{1,64}$/.test(word)) return null;
  const [lowerWord, lowerKey] = [word.toLowerCase(), key.toLowerCase()];
  const isPartOfKey = word.length >= KEY_PART_LENGTH && lowerKey.includes(lowerWord);
  return lowerWord.includes(lowerKey) || isPartOfKey ? null : word;
}
