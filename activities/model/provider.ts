// One request to a model, and what came of it. No retry, no clock of its own, no database: `call-model` claims the
// request first and decides afterwards. Keys, bodies, headers and messages of the provider stay in this folder.

import { AsyncLocalStorage } from 'node:async_hooks';

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

import { completionsBase, cleanModelKey, normalizeBaseUrl } from '../../prisma/model-endpoint';
import {
  NAMED_WAIT_LIMIT_MS,
  type DeclaredReply,
  type RefusalCode,
  type ReplyFailureCode,
  type RetryCode,
} from '../../workflows/contract';
import { classifyBroken, classifyError, classifyFinish, NO_FACTS, type ErrorFacts, type Verdict } from './classify';
import { readBody, readErrorBody, type Envelope, type ModelUsage } from './envelope';
import { exchangeOnce, type Exchange } from './exchange';
import { parseReply, REPLY_JSON_SCHEMA } from './reply';
import { cleanText } from './reply-text';
import { parseRetryAfter } from './retry-after';

export type { ModelUsage } from './envelope';

// The SDK prints its warnings to the console, and they can hold parts of the request.
globalThis.AI_SDK_LOG_WARNINGS = false;

export interface ModelEndpoint {
  baseUrl: string;
  apiKey: string;
  model: string;
  ownerSupplied: boolean;
  maxOutputTokens?: number;
}

export interface ModelPrompt {
  system: string;
  user: string;
}

export interface RequestOptions {
  signal: AbortSignal;
  /** From the start of the request to the last byte of its answer. */
  timeoutMs: number;
  /** Asked after DNS, for every address, before anything is connected to. Absent: every address is allowed. */
  allowsAddress?: (address: string) => boolean;
}

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

/**
 * Sends one request, or none when the endpoint itself is unusable, never two, and says what came of it.
 * Never rejects for anything a provider does, and nothing it returns but the reply holds a text of the provider.
 */
export async function requestReply(
  endpoint: ModelEndpoint,
  prompt: ModelPrompt,
  options: RequestOptions,
): Promise<ModelAnswer> {
  const url = normalizeBaseUrl(endpoint.baseUrl);
  if (!url.ok) return { kind: 'refused', code: 'address_refused', status: null, providerCode: null };
  const key = cleanModelKey(endpoint.apiKey);
  if (!key.ok) return { kind: 'refused', code: 'key_rejected', status: null, providerCode: null };

  const door = openDoor(options);
  let text: string | null;
  try {
    const model = modelAt(completionsBase(url.url), endpoint.model);
    const generated = await doors.run(door.fetch, () =>
      model.doGenerate({
        prompt: [
          // Half a surrogate pair, left by a cut somewhere, makes a body that strict servers refuse.
          { role: 'system', content: cleanText(prompt.system) },
          { role: 'user', content: [{ type: 'text', text: cleanText(prompt.user) }] },
        ],
        headers: { authorization: `Bearer ${key.key}` },
        // Passed through as it is. The SDK's own structured output would reject the plain text that we allow.
        providerOptions: { [PROVIDER_NAME]: { response_format: RESPONSE_FORMAT } },
        ...(endpoint.maxOutputTokens === undefined ? {} : { maxOutputTokens: endpoint.maxOutputTokens }),
      }),
    );
    text = generated.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  } catch {
    // The SDK's error holds the request and the answer; what the door saw says all that is needed.
    text = null;
  }
  return judge(door.seen(), text, key.key);
}

const PROVIDER_NAME = 'model';

type Model = ReturnType<ReturnType<typeof createOpenAICompatible>>;

/** Models made so far; the SDK takes half a millisecond to make one. They hold no key and no request. */
const models = new Map<string, Model>();
const MODELS_LIMIT = 100;

/** The door of the request that is under way: a model is shared by requests, a door is not. */
const doors = new AsyncLocalStorage<typeof fetch>();

// The provider's own call rather than `generateText`, which adds retries, tools and steps that one request has no use for,
// and takes twice the CPU.
function modelAt(baseURL: string, name: string): Model {
  const place = JSON.stringify([baseURL, name]);
  const known = models.get(place);
  if (known !== undefined) return known;
  const model = createOpenAICompatible({
    name: PROVIDER_NAME,
    baseURL,
    fetch: async (url, init) => {
      const door = doors.getStore();
      if (door === undefined) throw new Error('a request without its door');
      return door(url, init);
    },
  })(name);
  if (models.size >= MODELS_LIMIT) models.clear();
  models.set(place, model);
  return model;
}

const RESPONSE_FORMAT = {
  type: 'json_schema',
  json_schema: { name: 'reply', strict: true, schema: REPLY_JSON_SCHEMA },
};

type Seen =
  | { kind: 'nothing' }
  | { kind: 'exchange'; exchange: Exchange }
  | { kind: 'envelope'; envelope: Envelope; status: number }
  | { kind: 'verdict'; verdict: Verdict; exchange: Exchange; facts: ErrorFacts };

/**
 * The SDK's only way out: a `fetch` that goes through once, keeps what it saw, and hands the SDK an answer only when
 * there is one that it can read.
 */
function openDoor(options: RequestOptions): { fetch: typeof fetch; seen: () => Seen } {
  let seen: Seen = { kind: 'nothing' };
  let used = false;
  return {
    seen: () => seen,
    fetch: async (url, init) => {
      if (used) throw new Error('one request per call');
      used = true;
      const exchange = await exchangeOnce(
        {
          url: url instanceof Request ? url.url : String(url),
          headers: Object.fromEntries(new Headers(init?.headers)),
          body: typeof init?.body === 'string' ? init.body : '',
        },
        options,
      );
      seen = look(exchange);
      if (seen.kind !== 'envelope') throw new Error('no answer');
      return new Response(seen.envelope.mendedBody, { headers: { 'content-type': 'application/json' } });
    },
  };
}

function look(exchange: Exchange): Seen {
  if (exchange.kind !== 'answered') return { kind: 'exchange', exchange };
  if (exchange.status < 200 || exchange.status > 299) {
    const facts = readErrorBody(exchange.body);
    return { kind: 'verdict', verdict: classifyError(exchange.status, facts), exchange, facts };
  }
  const body = readBody(exchange.body);
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

function judge(seen: Seen, text: string | null, key: string): ModelAnswer {
  switch (seen.kind) {
    // The SDK refused to build the request.
    case 'nothing':
      return { kind: 'refused', code: 'malformed_request', status: null, providerCode: null };
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
  switch (classifyFinish(envelope.finishReason)) {
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
