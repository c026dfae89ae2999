// One HTTP POST, sent once and read to its end. Knows nothing of models: what an answer means is in classify.ts.
//
// Node's own http client rather than fetch: it follows no redirect, reads no proxy from the environment, retries
// nothing, and lets the address be checked after DNS, on the very address that is connected to.

import dns from 'node:dns';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { promisify } from 'node:util';
import zlib from 'node:zlib';

/** The largest answer read, packed and unpacked alike: a few kilobytes of gzip can hold gigabytes. */
export const ANSWER_BYTES_LIMIT = 2 * 1024 * 1024;

/** The code of the error raised when `allowsAddress` said no. */
export const ADDRESS_REFUSED = 'ADDRESS_REFUSED';

export interface ExchangeRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface ExchangeRules {
  /** Ours: the run was cancelled, or the worker is shutting down. */
  readonly signal: AbortSignal;
  /** Counts from the call to the last byte: name lookup, connecting and a body that drips are all inside. */
  readonly timeoutMs: number;
  /**
   * Asked for every address a name stands for, before any connection, and for the one that was connected to, before
   * anything is sent. Absent: every address is allowed.
   */
  readonly allowsAddress?: (address: string) => boolean;
}

export type Exchange =
  /** `body` is null when it could not be read: too large, badly packed, or cut off after an error status. */
  | {
      kind: 'answered';
      status: number;
      retryAfterMs: string | null;
      retryAfter: string | null;
      body: string | null;
    }
  /** The connection never came about, or broke. The system's error code, never its message. */
  | { kind: 'broken'; errorCode: string | null }
  | { kind: 'timeout' }
  | { kind: 'aborted' };

type Settle = (exchange: Exchange) => void;

/** Sends the request at most once and resolves with what came of it. Never rejects. */
export async function exchangeOnce(request: ExchangeRequest, rules: ExchangeRules): Promise<Exchange> {
  if (rules.signal.aborted) return { kind: 'aborted' };
  return await new Promise<Exchange>((resolve) => {
    let sent: http.ClientRequest | null = null;
    // Set once the status line is in: from then on an error status stands, whatever becomes of its body.
    let errorAnswer: Exchange | null = null;
    let settled = false;

    const settle: Settle = (exchange) => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      rules.signal.removeEventListener('abort', onAbort);
      sent?.destroy();
      resolve(exchange);
    };
    const settleBroken = (error: unknown): void =>
      settle(errorAnswer ?? { kind: 'broken', errorCode: errorCodeOf(error) });
    const onAbort = (): void => settle({ kind: 'aborted' });
    const timer = setTimeout(() => settle(errorAnswer ?? { kind: 'timeout' }), rules.timeoutMs);
    rules.signal.addEventListener('abort', onAbort, { once: true });

    try {
      sent = openRequest(request, rules);
      sent.on('error', settleBroken);
      const { allowsAddress } = rules;
      if (allowsAddress !== undefined) {
        // The look-up has checked this address; here the socket itself is asked, whoever opened it.
        const onConnect = (socket: net.Socket): void => {
          if (!allowsAddress(socket.remoteAddress ?? '')) settleBroken(addressRefused());
        };
        sent.on('socket', (socket) => socket.prependOnceListener('connect', () => onConnect(socket)));
      }
      sent.on('response', (response) => {
        const answer = {
          kind: 'answered',
          status: response.statusCode ?? 0,
          retryAfterMs: headerOf(response, 'retry-after-ms'),
          retryAfter: headerOf(response, 'retry-after'),
          body: null,
        } as const;
        if (answer.status < 200 || answer.status > 299) errorAnswer = answer;
        readBody(response).then(
          (body) => settle({ ...answer, body }),
          (error: unknown) => settleBroken(error),
        );
      });
      sent.end(request.body);
    } catch (error) {
      settleBroken(error);
    }
  });
}

function openRequest(request: ExchangeRequest, rules: ExchangeRules): http.ClientRequest {
  const url = new URL(request.url);
  const allowsAddress = rules.allowsAddress;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  // A literal address is connected to without a lookup, so it is asked about here.
  if (allowsAddress !== undefined && net.isIP(host) !== 0 && !allowsAddress(host)) throw addressRefused();
  const client = url.protocol === 'https:' ? https : http;
  return client.request(url, {
    method: 'POST',
    // A connection of its own: a kept one that the server has just closed would read as a failing server.
    agent: false,
    headers: {
      ...request.headers,
      'accept-encoding': 'identity',
      'content-length': Buffer.byteLength(request.body),
    },
    ...(allowsAddress === undefined ? {} : { lookup: guardedLookup(allowsAddress) }),
  });
}

/** Looks a name up and fails unless every address it stands for is allowed. */
function guardedLookup(allowsAddress: (address: string) => boolean): net.LookupFunction {
  return (hostname, options, callback) => {
    dns.lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, []);
      const first = addresses[0];
      if (first === undefined || !addresses.every(({ address }) => allowsAddress(address))) {
        return callback(addressRefused(), []);
      }
      if (options.all === true) return callback(null, addresses);
      callback(null, first.address, first.family);
    });
  };
}

function addressRefused(): NodeJS.ErrnoException {
  return Object.assign(new Error('this address may not be reached'), { code: ADDRESS_REFUSED });
}

/** The whole body as text, or null when it is too large or can't be unpacked. Rejects when the connection breaks. */
async function readBody(response: http.IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > ANSWER_BYTES_LIMIT) return null;
    chunks.push(chunk);
  }
  return await unpack(Buffer.concat(chunks), headerOf(response, 'content-encoding'));
}

const unpackers = new Map<string, (packed: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>([
  ['gzip', promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip)],
  ['x-gzip', promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip)],
  ['deflate', promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.inflate)],
  ['br', promisify<Buffer, zlib.BrotliOptions, Buffer>(zlib.brotliDecompress)],
]);

/** We ask for no packing; some servers pack anyway. */
async function unpack(packed: Buffer, encoding: string | null): Promise<string | null> {
  const name = encoding?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return packed.toString('utf8');
  const unpacker = unpackers.get(name);
  if (unpacker === undefined) return null;
  try {
    return (await unpacker(packed, { maxOutputLength: ANSWER_BYTES_LIMIT })).toString('utf8');
  } catch {
    return null;
  }
}

function headerOf(response: http.IncomingMessage, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : null;
}

/** Not by `instanceof`: an error of Node's own is of another realm inside a test runner. */
function errorCodeOf(error: unknown): string | null {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : null;
  return typeof code === 'string' ? code : null;
}
