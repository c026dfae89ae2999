// The application that this process serves, reached without a network: every request is written and parsed as HTTP, over a
// pair of streams in memory, and passes all that one from outside passes.

import { createServer, request as httpRequest, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import { answerOf, writtenOut, type Door } from './door';

/** What of the request from outside goes with those that it causes: who asks, and the name that the log knows it by. */
export interface Origin {
  readonly authorization: string;
  readonly requestId: string;
}

/** As many octets of head as the API itself takes: a cursor may be long. */
const HEAD_LIMIT_BYTES = 65_536;

/** Makes doors to one application, one for each caller. */
export function inProcessDoors(application: RequestListener): (origin: Origin) => Door {
  // Never listens: it is handed its connections.
  const server = createServer({ maxHeaderSize: HEAD_LIMIT_BYTES }, application);
  return (origin) => async (request) => {
    const { path, headers, body } = writtenOut(request);
    const answer = await new Promise<{ status: number; headers: IncomingHttpHeaders; text: string }>(
      (resolve, reject) => {
        const sent = httpRequest(
          {
            method: request.method,
            path,
            headers: {
              ...headers,
              host: 'in-process',
              connection: 'close',
              authorization: origin.authorization,
              'x-request-id': origin.requestId,
              ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
            },
            createConnection: () => {
              const [ours, theirs] = duplexPair();
              server.emit('connection', theirs);
              return ours;
            },
          },
          (res) => {
            text(res).then(
              (read) => resolve({ status: res.statusCode ?? 0, headers: res.headers, text: read }),
              reject,
            );
          },
        );
        sent.once('error', reject);
        sent.end(body);
      },
    );
    return answerOf(answer.status, (name) => String(answer.headers[name] ?? ''), answer.text);
  };
}
