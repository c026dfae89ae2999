// The body of a provider's answer, as servers really send it: read as JSON where it is JSON, and what every wire format
// shares in it. Where the reply stands is known to the format's own file; what it means, to classify.ts.

import { NO_FACTS, type ErrorFacts } from './classify';

/** Null where the server did not say: unknown is not zero. */
export interface ModelUsage {
  inputTokens: number | null;
  outputTokens: number | null;
}

/** A model's answer, whichever format it came in. */
export interface Envelope {
  /** The answer as the SDK's schema wants it: its text and nothing else. */
  readonly mendedBody: string;
  /** The server's own word for how the answer came to its end. */
  readonly finishReason: string | null;
  /** The server said that there should have been more. */
  readonly isIncomplete: boolean;
  /** The model said no in the place made for it. */
  readonly hasRefusal: boolean;
  readonly usage: ModelUsage;
}

export type Body =
  { kind: 'unreadable' } | { kind: 'error'; facts: ErrorFacts } | { kind: 'answer'; envelope: Envelope };

export type Json = Readonly<Record<string, unknown>>;

/** Reads the body of an answer with a success status; null from `readEnvelope` means that there is no answer in it. */
export function readBody(body: string | null, readEnvelope: (json: Json) => Body | null): Body {
  const json = parseBody(body);
  if (json === null) return { kind: 'unreadable' };
  if (holdsError(json)) return { kind: 'error', facts: readFacts(json) };
  return readEnvelope(json) ?? { kind: 'unreadable' };
}

/** The structured part of an error body; empty facts for HTML, or for no body at all. */
export function readErrorBody(body: string | null): ErrorFacts {
  const json = parseBody(body);
  return json === null ? NO_FACTS : readFacts(json);
}

/** A JSON object, also with the end mark of a stream glued to it and inside a list of one, or null. */
function parseBody(body: string | null): Json | null {
  const text = (body ?? '')
    .trim()
    .replace(/^data:\s*/, '')
    .replace(/(?:data:\s*)?\[DONE\]$/, '');
  try {
    const json: unknown = JSON.parse(text);
    return asObject(Array.isArray(json) ? json[0] : json);
  } catch {
    return null;
  }
}

export function holdsError(json: Json): boolean {
  if (json.type === 'error' || json.object === 'error') return true;
  return typeof json.error === 'string' ? json.error !== '' : asObject(json.error) !== null;
}

export function readFacts(json: Json): ErrorFacts {
  const error = asObject(json.error) ?? json;
  const inner = asObject(error.innererror);
  const named = [typeof json.error === 'string' ? json.error : null, error.code, error.type, error.status, inner?.code];
  const status = [error.code, error.status].map(Number).find((number) => number >= 100 && number <= 599);
  return {
    codes: named.filter((name): name is string => typeof name === 'string'),
    status: status ?? null,
    param: typeof error.param === 'string' ? error.param : null,
    flagged: Array.isArray(asObject(error.metadata)?.reasons),
    message: typeof error.message === 'string' ? error.message : null,
  };
}

/** Content is text, or a list of parts of which only the text parts are the answer: others hold the reasoning. */
export function readContent(content: unknown): { text: string; hasRefusal: boolean } {
  if (typeof content === 'string') return { text: content, hasRefusal: false };
  const parts = asObjects(content);
  return {
    text: parts
      .filter((part) => part.type === 'text' || part.type === 'output_text')
      .map((part) => (typeof part.text === 'string' ? part.text : ''))
      .join(''),
    hasRefusal: parts.some((part) => part.type === 'refusal'),
  };
}

/** Counts are kept in 32-bit columns; a larger one is no count. */
const COUNT_LIMIT = 2 ** 31 - 1;

/** A count of tokens, or null when this is none. */
export function readCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= COUNT_LIMIT ? value : null;
}

export function readText(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

export function asObject(value: unknown): Json | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

/** The objects of a list; none when it is no list. */
export function asObjects(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.map(asObject).filter((item) => item !== null) : [];
}
