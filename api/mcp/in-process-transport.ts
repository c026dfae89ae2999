// Calls the application of this process without a network. Each request is HTTP over a pair of in-memory streams, so it passes
// the same middleware as a request from outside.

import { createServer, request as httpRequest, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import { toApiResponse, serializeRequest, type ApiTransport } from './api-transport';

/** Copied from the outer request to the requests that it causes: the caller's key and the request id of the log. */
export interface CallerHeaders {
  readonly authorization: string;
  readonly requestId: string;
}

/** The same limit as the API's own server, because a cursor in a query can be long. */
const HEADER_LIMIT_BYTES = 65_536;

/** Returns a function that makes a transport to the application for one caller. */
export function createInProcessTransports(application: RequestListener): (caller: CallerHeaders) => ApiTransport {
  // This server does not listen; each request below gives it a connection.
  const server = createServer({ maxHeaderSize: HEADER_LIMIT_BYTES }, application);
  return (caller) => async (request) => {
    const { path, headers, body } = serializeRequest(request);
    const response = await new Promise<{ status: number; headers: IncomingHttpHeaders; text: string }>(
      (resolve, reject) => {
        const outgoing = httpRequest(
          {
            method: request.method,
            path,
            headers: {
              ...headers,
              host: 'in-process',
              connection: 'close',
              authorization: caller.authorization,
              'x-request-id': caller.requestId,
              ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
            },
            createConnection: () => {
              const [clientSide, serverSide] = duplexPair();
              server.emit('connection', serverSide);
              return clientSide;
            },
          },
          (res) => {
            text(res).then(
              (read) => resolve({ status: res.statusCode ?? 0, headers: res.headers, text: read }),
              reject,
            );
          },
        );
        outgoing.once('error', reject);
        outgoing.end(body);
      },
    );
    return toApiResponse(response.status, (name) => String(response.headers[name] ?? ''), response.text);
  };
}
