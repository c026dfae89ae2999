// A client of the API that posts messages to one room over connections it keeps. Plain node:http: `fetch` costs several
// times its CPU, which this machine would then lack.

import http from 'node:http';

export interface Poster {
  /** Posts one message and returns its id. @throws Error on any answer but 201 */
  post(text: string): Promise<string>;
  close(): void;
}

export function createPoster(apiUrl: string, roomId: string, token: string): Poster {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  const url = new URL(`/v1/rooms/${roomId}/events`, apiUrl);
  const post = (text: string): Promise<string> => {
    const body = JSON.stringify({ type: 'message', text });
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
          if (response.statusCode === 201) resolve((JSON.parse(answer) as { id: string }).id);
          else reject(new Error(`the API answered ${response.statusCode}: ${answer.slice(0, 300)}`));
        });
      });
      request.end(body);
    });
  };
  return { post, close: () => agent.destroy() };
}
