// An API client that posts messages over keep-alive connections. It uses node:http because `fetch` needs several times as much
// CPU, which the measured processes would lack.

import http from 'node:http';

export interface Poster {
  /** Posts one message and returns its id. @throws Error on any answer but 201 */
  post(text: string): Promise<string>;
  /** Posts one message, or a batch of `count` messages, to a room. @throws Error on any answer but 201 */
  postMany(roomId: string, text: string, count: number): Promise<void>;
  close(): void;
}

export function createPoster(apiUrl: string, roomId: string, token: string): Poster {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  const send = (to: string, body: string): Promise<string> => {
    const url = new URL(`/v1/rooms/${to}/events`, apiUrl);
    return new Promise((resolve, reject) => {
      const request = http.request(url, {
        agent,
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        },
      });
      request.once('error', reject);
      request.once('response', (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.once('error', reject);
        response.once('end', () => {
          const answer = Buffer.concat(chunks).toString('utf8');
          if (response.statusCode === 201) resolve(answer);
          else reject(new Error(`the API answered ${response.statusCode}: ${answer.slice(0, 300)}`));
        });
      });
      request.end(body);
    });
  };
  return {
    post: async (text) =>
      (JSON.parse(await send(roomId, JSON.stringify({ type: 'message', text }))) as { id: string }).id,
    postMany: async (to, text, count) => {
      const message = { type: 'message', text };
      await send(to, JSON.stringify(count === 1 ? message : Array.from({ length: count }, () => message)));
    },
    close: () => agent.destroy(),
  };
}
