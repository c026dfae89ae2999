// A model provider with scripted answers: a real HTTP server on 127.0.0.1 for every wire format. The path of a request
// selects the format.

import http from 'node:http';
import type { AddressInfo } from 'node:net';

import { bodyOf, half, toAnswer, type Reply, type ScriptedAnswer } from './scripted-answers';
import { formatOfPath, textsOf, type WireFormat } from './wire-formats';

export { answer, type ScriptedAnswer } from './scripted-answers';

export interface CapturedRequest {
  readonly path: string;
  readonly method: string;
  readonly headers: http.IncomingHttpHeaders;
  /** The JSON body, or the raw text if it is not JSON. */
  readonly body: unknown;
  /** The time at which its last byte was read, in milliseconds of Date.now. */
  readonly at: number;
  /** Its position among all requests, from 1. */
  readonly number: number;
  /** True if the caller disconnected before the whole answer was sent. */
  readonly aborted: boolean;
  /** The joined texts of the messages with this role. */
  textOf(role: 'system' | 'user'): string;
}

export type Responder = (request: CapturedRequest) => ScriptedAnswer | Reply | Promise<ScriptedAnswer | Reply>;

export interface ScriptedModel {
  /** The base URL, which ends in `/v1`. */
  readonly url: string;
  /** The address without a path. */
  readonly origin: string;
  /** Every request that arrived completely, oldest first. */
  readonly requests: readonly CapturedRequest[];
  /** The number of opened connections, with or without a request. */
  readonly connections: number;
  /** Adds answers to the queue. Each is used once, in order, before the responder is called. */
  script(...answers: (ScriptedAnswer | Reply)[]): void;
  /** Sets the responder for an empty queue. The default answers "ok". */
  respond(responder: Responder): void;
  /** Resolves when this many requests have arrived in total. */
  waitForRequests(count: number): Promise<void>;
  /** Clears requests, queue and responder. */
  reset(): void;
  /** Closes all connections and stops. Idempotent. */
  stop(): Promise<void>;
}

export interface ScriptedModelOptions {
  port?: number;
  respond?: Responder;
}

/** Starts a new server. Several servers can run at the same time. */
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
      await send(queue.shift() ?? toAnswer(await responder(captured)), formatOfPath(captured.path), outgoing);
      // In many tests, the caller disconnects during a request or an answer.
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
    textOf: (role) => textsOf(body, role).join('\n'),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function send(scripted: ScriptedAnswer, format: WireFormat, outgoing: http.ServerResponse): Promise<void> {
  if (scripted.delayMs > 0) await sleepUnlessGone(scripted.delayMs, outgoing);
  if (scripted.until !== null) await scripted.until;
  const { delivery } = scripted;
  const body = bodyOf(scripted, format);
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

/** A reset discards the bytes that the caller's kernel has not delivered yet. */
const LET_BYTES_ARRIVE_MS = 20;

/** Ends early when the caller disconnects, so that no timer remains after a stopped test. */
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
