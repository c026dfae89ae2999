// The body of a provider's answer: the parts that all wire formats share, with the deviations that real servers have.
// Each format's own file knows where its reply is; classify.ts knows what an error means.

import { NO_FACTS, type ErrorFacts } from './classify';

/** Null: the server sent no count. Unknown is not zero. */
export interface ModelUsage {
  inputTokens: number | null;
  outputTokens: number | null;
}

/** A model's answer in any wire format. */
export interface Envelope {
  /** The text of the answer, without reasoning. */
  readonly text: string;
  /** The server's own word for the end of the answer. */
  readonly finishReason: string | null;
  /** The server reports that a part of the answer is missing. */
  readonly isIncomplete: boolean;
  /** The model refused in the field that its format has for refusals. */
  readonly hasRefusal: boolean;
  readonly usage: ModelUsage;
}

export type Body =
  { kind: 'unreadable' } | { kind: 'error'; facts: ErrorFacts } | { kind: 'answer'; envelope: Envelope };

export type Json = Readonly<Record<string, unknown>>;

/** Reads the body of an answer with a success status. `readEnvelope` returns null when the body holds no answer. */
export function readBody(body: string | null, readEnvelope: (json: Json) => Body | null): Body {
  const json = parseBody(body);
  if (json === null) return { kind: 'unreadable' };
  if (holdsError(json)) return { kind: 'error', facts: readFacts(json) };
  return readEnvelope(json) ?? { kind: 'unreadable' };
}

/** The structured part of an error body. Empty for HTML and for a missing body. */
export function readErrorBody(body: string | null): ErrorFacts {
  const json = parseBody(body);
  return json === null ? NO_FACTS : readFacts(json);
}

/** A JSON object or null. Accepts the marks of a stream around the object, and a list with the object as first item. */
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

/** Content is text, or a list of parts. Only the text parts are the answer; other parts hold reasoning. */
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

/** The columns of counts have 32 bits; a larger number is not a count. */
const COUNT_LIMIT = 2 ** 31 - 1;

/** A count of tokens, or null. */
export function readCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= COUNT_LIMIT ? value : null;
}

export function readText(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

export function asObject(value: unknown): Json | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

/** The objects in a list. Empty when the value is not a list. */
export function asObjects(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.map(asObject).filter((item) => item !== null) : [];
}
