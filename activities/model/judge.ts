// What one exchange with a provider came to. Nothing of the provider passes but the reply, codes and counts.

import {
  NAMED_WAIT_LIMIT_MS,
  type DeclaredReply,
  type RefusalCode,
  type ReplyFailureCode,
  type RetryCode,
} from '../../workflows/contract';
import { readBody, readErrorBody, type Envelope, type ModelUsage } from './body';
import { classifyBroken, classifyError, classifyFinish, NO_FACTS, type ErrorFacts, type Verdict } from './classify';
import type { Exchange } from './exchange';
import { parseReply } from './reply';
import { parseRetryAfter } from './retry-after';
import type { WireFormat } from './wire-format';

export type ModelAnswer =
  | { kind: 'reply'; reply: DeclaredReply; usage: ModelUsage; finishReason: string | null }
  /** Asking again may help. `namedWaitMs` is null when the provider named none, and never 0. */
  | {
      kind: 'retry';
      code: RetryCode;
      status: number | null;
      providerCode: string | null;
      namedWaitMs: number | null;
    }
  /** Asking again may help, after a wait longer than a run waits. */
  | { kind: 'busy'; code: RetryCode; status: number | null; providerCode: string | null; waitMs: number }
  | { kind: 'refused'; code: RefusalCode; status: number | null; providerCode: string | null }
  /** The model answered, and the answer can't be used. */
  | { kind: 'failed'; code: ReplyFailureCode; usage: ModelUsage; finishReason: string | null }
  /** By our own signal, not by the time limit. */
  | { kind: 'aborted' };

/** What was seen of an exchange. */
export type Seen =
  | { kind: 'exchange'; exchange: Exchange }
  | { kind: 'envelope'; envelope: Envelope; status: number }
  | { kind: 'verdict'; verdict: Verdict; exchange: Exchange; facts: ErrorFacts };

/** Looks at an exchange before the SDK does. */
export function look(exchange: Exchange, format: WireFormat): Seen {
  if (exchange.kind !== 'answered') return { kind: 'exchange', exchange };
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

const UNREADABLE = { kind: 'retry', code: 'unreadable_answer' } as const satisfies Verdict;

/** What it means. `text` is what the SDK read in the envelope, null when it could not; `key` is what must not come back. */
export function judge(seen: Seen, text: string | null, key: string): ModelAnswer {
  switch (seen.kind) {
    case 'exchange':
      return judgeExchange(seen.exchange);
    case 'verdict':
      return toAnswer(seen.verdict, seen.exchange, providerCodeOf(seen.facts, key));
    case 'envelope':
      return judgeEnvelope(seen.envelope, seen.status, text, key);
  }
}

function judgeExchange(exchange: Exchange): ModelAnswer {
  switch (exchange.kind) {
    case 'aborted':
      return { kind: 'aborted' };
    case 'timeout':
      return toAnswer({ kind: 'retry', code: 'timeout' }, exchange, null);
    case 'broken':
      return toAnswer(classifyBroken(exchange.errorCode), exchange, null);
    case 'answered':
      return toAnswer(UNREADABLE, exchange, null);
  }
}

function judgeEnvelope(envelope: Envelope, status: number, text: string | null, key: string): ModelAnswer {
  const finishReason = toToken(envelope.finishReason, key);
  const { usage } = envelope;
  if (envelope.hasRefusal) return { kind: 'refused', code: 'model_declined', status, providerCode: finishReason };
  switch (classifyFinish(envelope.finishReason, envelope.isIncomplete)) {
    case 'declined':
      return { kind: 'refused', code: 'model_declined', status, providerCode: finishReason };
    case 'broken':
      return { kind: 'retry', code: 'server_error', status, providerCode: null, namedWaitMs: null };
    // Even when the JSON happens to parse: what was cut off may have been the rest of the work.
    case 'truncated':
      return { kind: 'failed', code: 'reply_truncated', usage, finishReason };
    case 'whole':
  }
  if (text === null) return { kind: 'retry', code: UNREADABLE.code, status, providerCode: null, namedWaitMs: null };
  const parsed = parseReply(text);
  return parsed.ok
    ? { kind: 'reply', reply: parsed.reply, usage, finishReason }
    : { kind: 'failed', code: parsed.code, usage, finishReason };
}

function toAnswer(verdict: Verdict, exchange: Exchange, providerCode: string | null): ModelAnswer {
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

/** Shorter pieces of a key tell nothing, and would forbid words like "stop" and "400" by chance. */
const KEY_PART_LENGTH = 8;

/** A provider's word for something, when it is one short word and no part of it is the key; else null. */
function toToken(word: string | null, key: string): string | null {
  if (word === null || !/^[A-Za-z0-9_.-]{1,64}$/.test(word)) return null;
  const [lowerWord, lowerKey] = [word.toLowerCase(), key.toLowerCase()];
  const isPartOfKey = word.length >= KEY_PART_LENGTH && lowerKey.includes(lowerWord);
  return lowerWord.includes(lowerKey) || isPartOfKey ? null : word;
}
