// The body of a chat-completions answer, as servers really send it: reads what is there and mends what the SDK's
// schema would reject. No meaning is given here; that is classify.ts.

import { NO_FACTS, type ErrorFacts } from './classify';

/** Null where the server did not say: unknown is not zero. */
export interface ModelUsage {
  inputTokens: number | null;
  outputTokens: number | null;
}

export interface Envelope {
  /** The body as the SDK's schema wants it: one choice, text content, no usage and no tool calls. */
  readonly mendedBody: string;
  readonly finishReason: string | null;
  readonly usage: ModelUsage;
  /** The model said no in the field made for it. */
  readonly hasRefusal: boolean;
}

export type Body =
  { kind: 'unreadable' } | { kind: 'error'; facts: ErrorFacts } | { kind: 'answer'; envelope: Envelope };

type Json = Record<string, unknown>;

/** Reads the body of an answer with a success status. */
export function readBody(body: string | null): Body {
  const json = parseBody(body);
  if (json === null) return { kind: 'unreadable' };
  const choices = json.choices;
  const choice = Array.isArray(choices) ? asObject(choices[0]) : null;
  // Some routers put the error of the provider behind them into the choice.
  for (const holder of [json, choice]) {
    if (holder !== null && holdsError(holder)) return { kind: 'error', facts: readFacts(holder) };
  }
  const message = asObject(choice?.message);
  if (choice === null || message === null) return { kind: 'unreadable' };

  const { text, refusal } = readContent(message.content);
  const finishReason = typeof choice.finish_reason === 'string' ? choice.finish_reason : null;
  return {
    kind: 'answer',
    envelope: {
      mendedBody: JSON.stringify({
        choices: [{ message: { role: 'assistant', content: text }, finish_reason: finishReason }],
      }),
      finishReason,
      usage: readUsage(asObject(json.usage)),
      hasRefusal: refusal || (typeof message.refusal === 'string' && message.refusal.trim() !== ''),
    },
  };
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

function holdsError(json: Json): boolean {
  if (json.type === 'error' || json.object === 'error') return true;
  return typeof json.error === 'string' ? json.error !== '' : asObject(json.error) !== null;
}

function readFacts(json: Json): ErrorFacts {
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
function readContent(content: unknown): { text: string; refusal: boolean } {
  if (typeof content === 'string') return { text: content, refusal: false };
  if (!Array.isArray(content)) return { text: '', refusal: false };
  const parts = content.map(asObject).filter((part) => part !== null);
  return {
    text: parts
      .filter((part) => part.type === 'text' || part.type === 'output_text')
      .map((part) => (typeof part.text === 'string' ? part.text : ''))
      .join(''),
    refusal: parts.some((part) => part.type === 'refusal'),
  };
}

function readUsage(usage: Json | null): ModelUsage {
  return { inputTokens: readCount(usage?.prompt_tokens), outputTokens: readCount(usage?.completion_tokens) };
}

/** Counts are kept in 32-bit columns; a larger one is no count. */
const COUNT_LIMIT = 2 ** 31 - 1;

function readCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= COUNT_LIMIT ? value : null;
}

function asObject(value: unknown): Json | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null;
}
