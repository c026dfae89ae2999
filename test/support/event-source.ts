// Reads server-sent events over plain node:http, so that a test can stop reading, hang up, and see every line.

import http from 'node:http';

export interface ReceivedEvent {
  readonly id: string | undefined;
  readonly event: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- any data of the API; each test asserts the shape that it expects
  readonly data: any;
}

export interface EventReader {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly events: readonly ReceivedEvent[];
  /** The number of received comments, which are the heartbeats. */
  comments(): number;
  /** Resolves when the connection is closed. */
  readonly ended: Promise<void>;
  /** Resolves when this many events have been received in total. */
  received(count: number): Promise<readonly ReceivedEvent[]>;
  receivedComments(comments: number): Promise<void>;
  /** Stops reading from the socket. */
  stopReading(): void;
  close(): void;
}

/** Opens a stream. Resolves when the response head is received, with any status. */
export function openEvents(
  url: string,
  token: string,
  options: { lastEventId?: string; accept?: string } = {},
): Promise<EventReader> {
  return new Promise((resolve, reject) => {
    const headers = {
      accept: options.accept ?? 'text/event-stream',
      authorization: `Bearer ${token}`,
      ...(options.lastEventId !== undefined && { 'last-event-id': options.lastEventId }),
    };
    const request = http.get(url, { headers, agent: false });
    request.once('error', reject);
    request.once('response', (response) => {
      request.on('error', () => undefined);
      resolve(readerOf(request, response));
    });
  });
}

function readerOf(request: http.ClientRequest, response: http.IncomingMessage): EventReader {
  const events: ReceivedEvent[] = [];
  const waiting = new Set<() => void>();
  let comments = 0;
  let rest = '';
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    const blocks = (rest + chunk).split('\n\n');
    rest = blocks.pop() as string;
    for (const block of blocks) {
      if (block.startsWith(':')) comments += 1;
      const event = eventOf(block);
      if (event !== null) events.push(event);
    }
    for (const check of waiting) check();
  });
  response.on('error', () => undefined);
  const ended = new Promise<void>((resolve) => response.once('close', resolve));
  const until = (condition: () => boolean): Promise<void> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (!condition()) return;
        waiting.delete(check);
        resolve();
      };
      waiting.add(check);
      void ended.then(() => reject(new Error(`the stream ended after ${events.length} events`)));
      check();
    });
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    events,
    comments: () => comments,
    ended,
    received: async (count) => {
      await until(() => events.length >= count);
      return events;
    },
    receivedComments: (count) => until(() => comments >= count),
    stopReading: () => void response.pause(),
    close: () => void request.destroy(),
  };
}

function eventOf(block: string): ReceivedEvent | null {
  const fields = new Map(
    block
      .split('\n')
      .filter((line) => !line.startsWith(':'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
  );
  const data = fields.get('data');
  if (data === undefined) return null;
  return { id: fields.get('id'), event: fields.get('event') ?? 'message', data: JSON.parse(data) };
}
