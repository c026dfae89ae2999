// One HTTP POST, sent once and read to its end. Knows nothing of models; classify.ts has the meaning of an answer.
//
// Uses Node's http client instead of fetch: it follows no redirect, reads no proxy from the environment, does not
// retry, and allows a check of the address after DNS, on the address that it connects to.

import dns from 'node:dns';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { promisify } from 'node:util';
import zlib from 'node:zlib';

/** The largest answer that is read, compressed and decompressed: a few kilobytes of gzip can hold gigabytes. */
export const ANSWER_BYTES_LIMIT = 2 * 1024 * 1024;

/** The error code when `allowsAddress` returns false. */
export const ADDRESS_REFUSED = 'ADDRESS_REFUSED';

export interface ExchangeRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface ExchangeRules {
  /** Aborted when the run is cancelled or the worker shuts down. */
  readonly signal: AbortSignal;
  /** From the call to the last byte, with the name lookup, the connection, and a slow body. */
  readonly timeoutMs: number;
  /**
   * Called for every address of the name before any connection, and for the connected address before anything is sent.
   * Absent: every address is allowed.
   */
  readonly allowsAddress?: (address: string) => boolean;
}

export type Exchange =
  /** `body` is null when it is too large, badly compressed, or cut off after an error status. */
  | {
      kind: 'answered';
      status: number;
      retryAfterMs: string | null;
      retryAfter: string | null;
      body: string | null;
    }
  /** The connection failed before the end of the answer. Holds the system's error code, never its message. */
  | { kind: 'connection_failed'; errorCode: string | null }
  | { kind: 'timeout' }
  | { kind: 'aborted' };

type Settle = (exchange: Exchange) => void;

/** Sends the request at most once and resolves with its result. Never rejects. */
export async function exchangeOnce(request: ExchangeRequest, rules: ExchangeRules): Promise<Exchange> {
  if (rules.signal.aborted) return { kind: 'aborted' };
  return await new Promise<Exchange>((resolve) => {
    let sent: http.ClientRequest | null = null;
    // Set when an error status arrives. The status then counts even if its body is not readable.
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
    const settleFailed = (error: unknown): void =>
      settle(errorAnswer ?? { kind: 'connection_failed', errorCode: errorCodeOf(error) });
    const onAbort = (): void => settle({ kind: 'aborted' });
    const timer = setTimeout(() => settle(errorAnswer ?? { kind: 'timeout' }), rules.timeoutMs);
    rules.signal.addEventListener('abort', onAbort, { once: true });

    try {
      sent = openRequest(request, rules);
      sent.on('error', settleFailed);
      const { allowsAddress } = rules;
      if (allowsAddress !== undefined) {
        // The lookup has checked this address; this checks the address of the socket itself.
        const onConnect = (socket: net.Socket): void => {
          if (!allowsAddress(socket.remoteAddress ?? '')) settleFailed(addressRefused());
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
          (error: unknown) => settleFailed(error),
        );
      });
      sent.end(request.body);
    } catch (error) {
      settleFailed(error);
    }
  });
}

function openRequest(request: ExchangeRequest, rules: ExchangeRules): http.ClientRequest {
  const url = new URL(request.url);
  const allowsAddress = rules.allowsAddress;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  // A literal address needs no lookup, so it is checked here.
  if (allowsAddress !== undefined && net.isIP(host) !== 0 && !allowsAddress(host)) throw addressRefused();
  const client = url.protocol === 'https:' ? https : http;
  return client.request(url, {
    method: 'POST',
    // A new connection: a kept one that the server has just closed would look like a failing server.
    agent: false,
    headers: {
      ...request.headers,
      'accept-encoding': 'identity',
      'content-length': Buffer.byteLength(request.body),
    },
    ...(allowsAddress === undefined ? {} : { lookup: guardedLookup(allowsAddress) }),
  });
}

/** Looks up a name, and fails unless every address of the name is allowed. */
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

/**
 * The whole body as text, or null when it is too large or cannot be decompressed. Rejects when the connection fails.
 */
async function readBody(response: http.IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > ANSWER_BYTES_LIMIT) return null;
    chunks.push(chunk);
  }
  return await decompress(Buffer.concat(chunks), headerOf(response, 'content-encoding'));
}

const decompressors = new Map<string, (compressed: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>([
  ['gzip', promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip)],
  ['x-gzip', promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip)],
  ['deflate', promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.inflate)],
  ['br', promisify<Buffer, zlib.BrotliOptions, Buffer>(zlib.brotliDecompress)],
]);

/** The request asks for no compression, and some servers compress anyway. */
async function decompress(compressed: Buffer, encoding: string | null): Promise<string | null> {
  const name = encoding?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return compressed.toString('utf8');
  const decompressor = decompressors.get(name);
  if (decompressor === undefined) return null;
  try {
    return (await decompressor(compressed, { maxOutputLength: ANSWER_BYTES_LIMIT })).toString('utf8');
  } catch {
    return null;
  }
}

function headerOf(response: http.IncomingMessage, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : null;
}

/** Without `instanceof`: inside a test runner, Node's own errors belong to another realm. */
function errorCodeOf(error: unknown): string | null {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : null;
  return typeof code === 'string' ? code : null;
}
