// In front of the dev server what stands in front of a real one: TLS, perhaps a certificate of the client's, and an API
// key. A proxy of HTTP/2 streams that looks at the headers and passes everything else on.

import http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { CertificateAuthority } from './certificates';

export interface TemporalProxy {
  readonly address: string;
  /** Calls that were let through, and those that were turned away. */
  readonly calls: { passed: number; refused: number };
  close(): Promise<void>;
}

export interface TemporalProxyOptions {
  /** host:port of the server behind it. */
  readonly upstream: string;
  readonly authority: CertificateAuthority;
  /** The name in its certificate. */
  readonly serverName: string;
  /** Without one, nobody is asked for a key. */
  readonly apiKey?: string;
  /** Ask for a certificate that the authority issued. */
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
  const onwards = upstream.request(rest);
  let trailers: http2.OutgoingHttpHeaders = {};
  onwards.on('error', () => stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR));
  stream.on('close', () => onwards.close(http2.constants.NGHTTP2_CANCEL));
  onwards.on('response', (answer, flags) => {
    // An answer that is trailers only ends with its headers.
    const ended = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    if (!stream.closed) stream.respond(forwarded(answer), ended ? { endStream: true } : { waitForTrailers: true });
  });
  onwards.on('trailers', (ending) => {
    trailers = forwarded(ending);
  });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  stream.pipe(onwards);
  onwards.pipe(stream);
}

function forwarded(headers: http2.IncomingHttpHeaders): http2.OutgoingHttpHeaders {
  const status = headers[':status'];
  const rest = Object.entries(headers).filter(([name]) => !HOP_HEADERS.has(name));
  return { ...Object.fromEntries(rest), ...(status === undefined ? {} : { ':status': status }) };
}
