// A model provider that plays a script: a real HTTP server on 127.0.0.1 speaking OpenAI's chat-completions format.
// Every way a provider was seen to fail is an answer it can give; see cases.md, section b.

import http from 'node:http';
import type { AddressInfo } from 'node:net';
import zlib from 'node:zlib';

import type { DeclaredReply } from '../../workflows/contract';

export interface CapturedRequest {
  readonly path: string;
  readonly method: string;
  readonly headers: http.IncomingHttpHeaders;
  /** The JSON body, or the raw text when it was not JSON. */
  readonly body: unknown;
  /** When its last byte was read, in milliseconds of Date.now. */
  readonly at: number;
  /** Its place among all requests, from 1. */
  readonly number: number;
  /** True once the caller went away before the whole answer was sent. */
  readonly aborted: boolean;
  /** What the messages of this role said, joined: where a test looks for what the model was shown. */
  textOf(role: 'system' | 'user'): string;
}

/** How the bytes of an answer leave the server. */
export type Delivery =
  | { how: 'whole' }
  /** The first half of the body, then a reset. */
  | { how: 'reset_mid_body' }
  /** A reset before any header. */
  | { how: 'reset_at_once' }
  /** Half the body under the content length of the whole, then a normal end of the connection. */
  | { how: 'short_body' }
  /** The headers, then nothing more. */
  | { how: 'headers_only' }
  /** One byte at a time. */
  | { how: 'drip'; everyMs: number };

export interface ScriptedAnswer {
  status: number;
  headers: Record<string, string>;
  body: string | Buffer;
  /** Waited before the first byte. */
  delayMs: number;
  /** Waited for before the first byte, after the delay. */
  until: Promise<void> | null;
  delivery: Delivery;
}

/** An answer that waits until its test lets it go. */
export interface HeldAnswer extends ScriptedAnswer {
  release(): void;
}

type Reply = Partial<DeclaredReply> | string;

export interface ReplyOptions {
  finishReason?: string | null;
  /** `undefined` leaves the field out. */
  usage?: unknown;
  delayMs?: number;
}

const USAGE = { prompt_tokens: 120, completion_tokens: 30, total_tokens: 150 };

/** Builders for every answer the server can give. `with` changes any of them further. */
export const answer = {
  /** A good answer: text as it is, a declared reply as JSON. */
  reply(reply: Reply, options: ReplyOptions = {}): ScriptedAnswer {
    const content = typeof reply === 'string' ? reply : JSON.stringify(reply);
    return answer.message({ content }, options);
  },
  /** A success whose message has exactly these fields beside its role. */
  message(message: Record<string, unknown>, options: ReplyOptions = {}): ScriptedAnswer {
    const finishReason = options.finishReason === undefined ? 'stop' : options.finishReason;
    const completion = {
      id: 'chatcmpl-scripted',
      object: 'chat.completion',
      created: 1_770_000_000,
      model: 'scripted',
      choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finishReason }],
      usage: 'usage' in options ? options.usage : USAGE,
    };
    return { ...answer.json(200, completion), delayMs: options.delayMs ?? 0 };
  },
  /** An error in OpenAI's shape. */
  error(status: number, code: string | null, headers: Record<string, string> = {}, type?: string): ScriptedAnswer {
    const error = { message: 'scripted error', type: type ?? 'scripted_error', param: null, code };
    return answer.json(status, { error }, headers);
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
  /** A good answer cut to broken JSON, whose length header is right. */
  truncatedJson(reply: Reply = 'cut'): ScriptedAnswer {
    const whole = answer.reply(reply);
    return { ...whole, body: half(whole.body) };
  },
  /** Packed, whether the caller asked for it or not. */
  gzip(of: ScriptedAnswer): ScriptedAnswer {
    return { ...of, body: zlib.gzipSync(of.body), headers: { ...of.headers, 'content-encoding': 'gzip' } };
  },
  with(of: ScriptedAnswer, changes: Partial<ScriptedAnswer>): ScriptedAnswer {
    return { ...of, ...changes };
  },
  resetMidBody: (reply: Reply = 'cut'): ScriptedAnswer => deliver(reply, { how: 'reset_mid_body' }),
  resetAtOnce: (): ScriptedAnswer => deliver('cut', { how: 'reset_at_once' }),
  shortBody: (reply: Reply = 'cut'): ScriptedAnswer => deliver(reply, { how: 'short_body' }),
  headersOnly: (reply: Reply = 'stalled'): ScriptedAnswer => deliver(reply, { how: 'headers_only' }),
  drip: (everyMs: number, reply: Reply = 'slow'): ScriptedAnswer => deliver(reply, { how: 'drip', everyMs }),
  /** Held until `release()`; then a good answer, or `then`. */
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

function toAnswer(of: ScriptedAnswer | Reply): ScriptedAnswer {
  return typeof of === 'object' && 'delivery' in of ? of : answer.reply(of);
}

function half(body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  return bytes.subarray(0, Math.floor(bytes.length / 2));
}

export type Responder = (request: CapturedRequest) => ScriptedAnswer | Reply | Promise<ScriptedAnswer | Reply>;

export interface ScriptedModel {
  /** The base URL that ends in `/v1`. */
  readonly url: string;
  /** The address without a path. */
  readonly origin: string;
  /** Every request that arrived whole, oldest first. */
  readonly requests: readonly CapturedRequest[];
  /** Connections that were opened, whether or not a request came over them. */
  readonly connections: number;
  /** Adds answers to the queue; each is given once, in order, before the responder is asked. */
  script(...answers: (ScriptedAnswer | Reply)[]): void;
  /** Who answers when the queue is empty. Without one: a plain "ok". */
  respond(responder: Responder): void;
  /** Resolves when this many requests have arrived in all. */
  waitForRequests(count: number): Promise<void>;
  /** Forgets requests, queue and responder. */
  reset(): void;
  /** Cuts what is open and stops. May be called twice. */
  stop(): Promise<void>;
}

export interface ScriptedModelOptions {
  port?: number;
  respond?: Responder;
}

/** Starts a server of its own; each test file can have one. */
export async function startScriptedModel(options: ScriptedModelOptions = {}): Promise<ScriptedModel> {
  const requests: CapturedRequest[] = [];
  const queue: ScriptedAnswer[] = [];
  const waiting: { count: number; resolve: () => void }[] = [];
  const byDefault: Responder = options.respond ?? (() => 'ok');
  let responder = byDefault;
  let connections = 0;

  const server = http.createServer((incoming, outgoing) => {
    void (async () => {
      const captured = await capture(incoming, outgoing, requests.length + 1);
      requests.push(captured);
      for (const waiter of waiting) if (requests.length >= waiter.count) waiter.resolve();
      await send(queue.shift() ?? toAnswer(await responder(captured)), outgoing);
      // A caller that goes away mid-request or mid-answer is part of many tests.
    })().catch(() => outgoing.destroy());
  });
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, '127.0.0.1', resolve);
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  return {
    url: `${origin}/v1`,
    origin,
    requests,
    get connections() {
      return connections;
    },
    script: (...answers) => void queue.push(...answers.map(toAnswer)),
    respond(next) {
      responder = next;
    },
    waitForRequests: (count) =>
      new Promise((resolve) => {
        if (requests.length >= count) resolve();
        else waiting.push({ count, resolve });
      }),
    reset() {
      requests.length = 0;
      queue.length = 0;
      responder = byDefault;
      connections = 0;
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function capture(
  incoming: http.IncomingMessage,
  outgoing: http.ServerResponse,
  number: number,
): Promise<CapturedRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  let aborted = false;
  outgoing.once('close', () => {
    aborted = !outgoing.writableFinished;
  });
  const body = parseJson(text);
  return {
    path: incoming.url ?? '',
    method: incoming.method ?? '',
    headers: incoming.headers,
    body,
    at: Date.now(),
    number,
    get aborted() {
      return aborted;
    },
    textOf: (role) => messageTexts(body, role).join('\n'),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function messageTexts(body: unknown, role: string): string[] {
  const messages = (body as { messages?: { role: string; content: unknown }[] } | null)?.messages ?? [];
  return messages
    .filter((message) => message.role === role)
    .map(({ content }) => (typeof content === 'string' ? content : JSON.stringify(content)));
}

async function send(scripted: ScriptedAnswer, outgoing: http.ServerResponse): Promise<void> {
  if (scripted.delayMs > 0) await sleepUnlessGone(scripted.delayMs, outgoing);
  if (scripted.until !== null) await scripted.until;
  const { delivery } = scripted;
  const body = Buffer.from(scripted.body);
  if (delivery.how === 'reset_at_once') {
    outgoing.socket?.resetAndDestroy();
    return;
  }
  const length = String(body.length);
  outgoing.writeHead(scripted.status, { 'content-length': length, ...scripted.headers });
  switch (delivery.how) {
    case 'whole':
      outgoing.end(body);
      return;
    case 'headers_only':
      outgoing.flushHeaders();
      return;
    case 'reset_mid_body':
      outgoing.write(half(body), () => setTimeout(() => outgoing.socket?.resetAndDestroy(), LET_BYTES_ARRIVE_MS));
      return;
    case 'short_body':
      outgoing.write(half(body), () => outgoing.socket?.end());
      return;
    case 'drip':
      for (const byte of body) {
        if (outgoing.destroyed) return;
        outgoing.write(Buffer.of(byte));
        await sleepUnlessGone(delivery.everyMs, outgoing);
      }
      outgoing.end();
      return;
  }
}

/** A reset throws away what the caller's kernel has not handed over yet. */
const LET_BYTES_ARRIVE_MS = 20;

/** Ends early when the caller goes away, so that a stopped test leaves no timer behind. */
async function sleepUnlessGone(ms: number, outgoing: http.ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      outgoing.off('close', done);
      resolve();
    }
    outgoing.once('close', done);
  });
}
