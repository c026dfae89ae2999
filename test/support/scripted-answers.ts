// Every answer of the scripted model server, in any wire format. The failures are failures of real providers.

import zlib from 'node:zlib';

import type { DeclaredReply } from '../../workflows/contract';
import { WIRE_FORMATS, type ScriptedMessage, type WireFormat } from './wire-formats';

/** How the server sends the bytes of an answer. */
export type Delivery =
  | { how: 'whole' }
  /** The first half of the body, then a reset. */
  | { how: 'reset_mid_body' }
  /** A reset before any header. */
  | { how: 'reset_at_once' }
  /** Half of the body with the content length of the whole body, then a normal end of the connection. */
  | { how: 'short_body' }
  /** The headers, then nothing more. */
  | { how: 'headers_only' }
  /** One byte at a time. */
  | { how: 'drip'; everyMs: number };

/** A body for each format, or bytes that are equal in every format. */
type Body = string | Buffer | ((format: WireFormat) => string | Buffer);

export interface ScriptedAnswer {
  status: number;
  headers: Record<string, string>;
  body: Body;
  /** The delay before the first byte. */
  delayMs: number;
  /** After the delay, the server waits for this promise before the first byte. */
  until: Promise<void> | null;
  delivery: Delivery;
}

/** An answer that waits until its test releases it. */
export interface HeldAnswer extends ScriptedAnswer {
  release(): void;
}

export type Reply = Partial<DeclaredReply> | string;

export interface ReplyOptions {
  /** `stop`, `length` and `content_filter` are translated to each format; any other value is sent unchanged. */
  finishReason?: string | null;
  /** `undefined` leaves the field out, counts are put into the fields of each format, any other value is sent unchanged. */
  usage?: unknown;
  delayMs?: number;
}

const USAGE = { input: 120, output: 30 };

/** Builders for every answer of the server. `with` changes an answer. */
export const answer = {
  /** A successful answer: a string is sent unchanged, a declared reply as JSON. */
  reply(reply: Reply, options: ReplyOptions = {}): ScriptedAnswer {
    const content = typeof reply === 'string' ? reply : JSON.stringify(reply);
    return answer.message({ content }, options);
  },
  /** A success whose message has exactly these fields and its role. The fields have the names of chat-completions. */
  message(message: ScriptedMessage, options: ReplyOptions = {}): ScriptedAnswer {
    const finishReason = options.finishReason === undefined ? 'stop' : options.finishReason;
    const usage = 'usage' in options ? options.usage : USAGE;
    const body: Body = (format) => JSON.stringify(WIRE_FORMATS[format].success(message, finishReason, usage));
    return { ...answer.json(200, null), body, delayMs: options.delayMs ?? 0 };
  },
  /** An error in the shape of each format. */
  error(
    status: number,
    code: string | null,
    headers: Record<string, string> = {},
    type = 'scripted_error',
    message = 'scripted error',
  ): ScriptedAnswer {
    const body: Body = (format) => JSON.stringify(WIRE_FORMATS[format].error({ code, type, message }));
    return { ...answer.json(status, null, headers), body };
  },
  json(status: number, body: unknown, headers: Record<string, string> = {}): ScriptedAnswer {
    return answer.raw(status, JSON.stringify(body), { 'content-type': 'application/json', ...headers });
  },
  raw(status: number, body: string | Buffer, headers: Record<string, string> = {}): ScriptedAnswer {
    return { status, headers, body, delayMs: 0, until: null, delivery: { how: 'whole' } };
  },
  html(status: number, page = '<!doctype html><title>Just a moment...</title>'): ScriptedAnswer {
    return answer.raw(status, page, { 'content-type': 'text/html; charset=utf-8' });
  },
  redirect(location: string, status = 307): ScriptedAnswer {
    return answer.raw(status, '', { location });
  },
  /** A successful answer cut to invalid JSON, with a correct length header. */
  truncatedJson(reply: Reply = 'cut'): ScriptedAnswer {
    const whole = answer.reply(reply);
    return { ...whole, body: (format) => half(bodyOf(whole, format)) };
  },
  /** Compresses an answer, even if the caller did not ask for it. */
  gzip(of: ScriptedAnswer): ScriptedAnswer {
    const body: Body = (format) => zlib.gzipSync(bodyOf(of, format));
    return { ...of, body, headers: { ...of.headers, 'content-encoding': 'gzip' } };
  },
  with(of: ScriptedAnswer, changes: Partial<ScriptedAnswer>): ScriptedAnswer {
    return { ...of, ...changes };
  },
  resetMidBody: (reply: Reply = 'cut'): ScriptedAnswer => deliver(reply, { how: 'reset_mid_body' }),
  resetAtOnce: (): ScriptedAnswer => deliver('cut', { how: 'reset_at_once' }),
  shortBody: (reply: Reply = 'cut'): ScriptedAnswer => deliver(reply, { how: 'short_body' }),
  headersOnly: (reply: Reply = 'stalled'): ScriptedAnswer => deliver(reply, { how: 'headers_only' }),
  drip: (everyMs: number, reply: Reply = 'slow'): ScriptedAnswer => deliver(reply, { how: 'drip', everyMs }),
  /** Waits for `release()`, then sends a successful answer or `then`. */
  hold(then: ScriptedAnswer | Reply = 'held'): HeldAnswer {
    let release = (): void => {};
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    return { ...toAnswer(then), until, release: () => release() };
  },
};

function deliver(reply: Reply, delivery: Delivery): ScriptedAnswer {
  return { ...answer.reply(reply), delivery };
}

/** Converts a reply to an answer. */
export function toAnswer(of: ScriptedAnswer | Reply): ScriptedAnswer {
  return typeof of === 'object' && 'delivery' in of ? of : answer.reply(of);
}

/** The bytes of an answer to a request in this format. */
export function bodyOf({ body }: ScriptedAnswer, format: WireFormat): Buffer {
  return Buffer.from(typeof body === 'function' ? body(format) : body);
}

export function half(bytes: Buffer): Buffer {
  return bytes.subarray(0, Math.floor(bytes.length / 2));
}
