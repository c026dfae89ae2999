// A proxy in front of the dev server with the features of a production endpoint: TLS, client certificates and an API key. It
// proxies HTTP/2 streams, and checks only their headers.

import http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { CertificateAuthority } from './certificates';

export interface TemporalProxy {
  readonly address: string;
  /** The numbers of passed and refused calls. */
  readonly calls: { passed: number; refused: number };
  close(): Promise<void>;
}

export interface TemporalProxyOptions {
  /** host:port of the server behind it. */
  readonly upstream: string;
  readonly authority: CertificateAuthority;
  /** The name in its certificate. */
  readonly serverName: string;
  /** Without one, the proxy checks no key. */
  readonly apiKey?: string;
  /** Requires a client certificate of the authority. */
  readonly mutualTls?: boolean;
}

/** gRPC's UNAUTHENTICATED. */
const UNAUTHENTICATED = '16';

const HOP_HEADERS = new Set([':status', 'connection', 'keep-alive', 'transfer-encoding']);

export async function startTemporalProxy(options: TemporalProxyOptions): Promise<TemporalProxy> {
  const { key, cert } = options.authority.issue(options.serverName);
  const upstream = http2.connect(`http://${options.upstream}`);
  upstream.on('error', () => undefined);
  const calls = { passed: 0, refused: 0 };
  const sessions = new Set<http2.ServerHttp2Session>();
  const server = http2.createSecureServer({
    key,
    cert,
    ca: options.authority.cert,
    requestCert: options.mutualTls === true,
    rejectUnauthorized: options.mutualTls === true,
  });
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  server.on('sessionError', () => undefined);
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    if (options.apiKey !== undefined && headers.authorization !== `Bearer ${options.apiKey}`) {
      calls.refused += 1;
      stream.respond(
        {
          ':status': 200,
          'content-type': 'application/grpc',
          'grpc-status': UNAUTHENTICATED,
          'grpc-message': 'Request unauthorized.',
        },
        { endStream: true },
      );
      return;
    }
    calls.passed += 1;
    pass(upstream, stream, headers);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    close: async () => {
      for (const session of sessions) session.destroy();
      upstream.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function pass(
  upstream: http2.ClientHttp2Session,
  stream: http2.ServerHttp2Stream,
  headers: http2.IncomingHttpHeaders,
): void {
  const { authorization: _, ...rest } = headers;
  const forwardedCall = upstream.request(rest);
  let trailers: http2.OutgoingHttpHeaders = {};
  forwardedCall.on('error', () => stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR));
  stream.on('close', () => forwardedCall.close(http2.constants.NGHTTP2_CANCEL));
  forwardedCall.on('response', (answer, flags) => {
    // A trailers-only answer ends with its headers.
    const ended = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    if (!stream.closed) stream.respond(forwarded(answer), ended ? { endStream: true } : { waitForTrailers: true });
  });
  forwardedCall.on('trailers', (ending) => {
    trailers = forwarded(ending);
  });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  stream.pipe(forwardedCall);
  forwardedCall.pipe(stream);
}

function forwarded(headers: http2.IncomingHttpHeaders): http2.OutgoingHttpHeaders {
  const status = headers[':status'];
  const rest = Object.entries(headers).filter(([name]) => !HOP_HEADERS.has(name));
  return { ...Object.fromEntries(rest), ...(status === undefined ? {} : { ':status': status }) };
}
