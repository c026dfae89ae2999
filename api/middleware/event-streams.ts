// Server-sent events. Each stream reads the table from its own position, after a notification or at its poll interval,
// so it misses no event. It reads only when its client has taken the last page, so a slow client delays no other.

import type { Request, Response } from 'express';
import { listenTo, type ChannelListener } from '../../prisma/channel-listener';
import { NotFound, Transient } from '../../prisma/store/db/errors';
import { ROOMS_CHANNEL } from '../../prisma/store/db/notifications';
import type { Database } from '../../prisma/store/db/database';
import { inStatement } from '../../prisma/store/db/sql-errors';
import type { Reader } from '../../prisma/store/db/transaction';
import type { Caller } from './caller';
import { isSeq } from '../schemas/cursors';
import { Problem } from '../problems';

export interface StreamPage {
  readonly events: readonly { readonly id: string; readonly resource: Record<string, unknown> }[];
  /** True when more events can be read now. */
  readonly more: boolean;
  /** The position from which the stream continues, if the position that the client named is unknown; else null. */
  readonly resync: string | null;
}

/** The source of a stream's events. It keeps the stream's position. */
export interface StreamSource {
  /** True when the stream has events of this room, or of this company's held actions. */
  concerns(roomOrCompanyId: string): boolean;
  /** Sets the position to the event that the client received last. */
  resume(lastEventId: string): void;
  /** Reads the next page. Null when the key may no longer read it. */
  read(reader: Reader, keyId: string): Promise<StreamPage | null>;
}

export interface StreamSettings {
  readonly streamsPerKey: number;
  /**
   * How often a stream reads without a notification. Limits how late an event is and how long a revoked key still
   * streams.
   */
  readonly pollMs: number;
  /** How often an idle stream sends a comment. Proxies close a connection that is silent for about a minute. */
  readonly heartbeatMs: number;
  /** How long a client may take to read what was sent before its stream is closed. */
  readonly slowMs: number;
}

export const STREAM_SETTINGS: StreamSettings = {
  streamsPerKey: 10,
  pollMs: 2_000,
  heartbeatMs: 15_000,
  slowMs: 20_000,
};

export interface Streams {
  /** Serves a stream until either side ends it. @throws Problem, NotFound before the first byte is sent */
  open(req: Request, res: Response, caller: Caller, source: StreamSource): Promise<void>;
  /** Ends every stream and refuses new ones. Idempotent. */
  close(): Promise<void>;
}

/** How soon a browser's EventSource reconnects. */
const RECONNECT_MS = 2_000;
/** Retry-After for a key with too many streams: a stream that the client closed may still count for this long. */
const TOO_MANY_RETRY_SECONDS = 5;
/**
 * Concurrent reads of all streams. One event in a room with a thousand readers must not use every database connection.
 */
const READ_CONCURRENCY = 4;

interface Stream {
  readonly source: StreamSource;
  wake(): void;
  end(): void;
}

/** `databaseUrl`: the database to listen to for notifications. Without it, streams only poll. */
export function createStreams(
  { db, databaseUrl, onLost }: { db: Database; databaseUrl?: string; onLost?: (reason: string) => void },
  settings: StreamSettings = STREAM_SETTINGS,
): Streams {
  const open = new Set<Stream>();
  const perKey = new Map<string, number>();
  const enqueue = createQueue(READ_CONCURRENCY);
  let listener: ChannelListener | undefined;
  let closed = false;

  const onNotification = (payload: string | null): void => {
    const ids = payload?.split(',');
    for (const stream of open) {
      if (ids === undefined || ids.some((id) => stream.source.concerns(id))) stream.wake();
    }
  };

  const serve = async (req: Request, res: Response, keyId: string, source: StreamSource): Promise<void> => {
    const lastEventId = req.get('last-event-id');
    if (lastEventId !== undefined && lastEventId !== '') source.resume(lastEventId);
    const read = (): Promise<StreamPage | null> => enqueue(() => inStatement(source.read(db, keyId)));

    const notified = createSignal();
    const ended = new AbortController();
    res.once('close', () => ended.abort());
    const stream: Stream = { source, wake: () => notified.set(), end: () => ended.abort() };
    ended.signal.addEventListener('abort', () => notified.set());
    // Registered before the first read, so that no notification between two reads is lost.
    open.add(stream);
    const heartbeat = setInterval(() => {
      if (res.headersSent && !res.writableNeedDrain) res.write(': \n\n');
    }, settings.heartbeatMs);
    try {
      let page = await read();
      if (page === null) throw new NotFound('no such room');
      res.status(200).set({ 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Accel-Buffering': 'no' });
      res.write(`retry: ${RECONNECT_MS}\n\n`);
      while (!ended.signal.aborted && page !== null) {
        const taken = await write(res, textOf(page), settings.slowMs, ended.signal);
        if (!taken) {
          // The client does not read, so a normal end would not reach it and the buffer would stay in memory.
          res.destroy();
          break;
        }
        if (!page.more) await notified.wait(settings.pollMs);
        if (ended.signal.aborted) break;
        notified.clear();
        page = await readOrWait(read);
      }
    } finally {
      clearInterval(heartbeat);
      open.delete(stream);
      if (res.headersSent && !res.destroyed) res.end();
    }
  };

  return {
    async open(req, res, { keyId }, source) {
      if (closed) throw new Problem('unavailable', 'this process is stopping', { headers: { 'Retry-After': '1' } });
      const count = perKey.get(keyId) ?? 0;
      if (count >= settings.streamsPerKey) {
        throw new Problem('rate_limited', `a key may have ${settings.streamsPerKey} streams at once`, {
          headers: { 'Retry-After': String(TOO_MANY_RETRY_SECONDS) },
        });
      }
      perKey.set(keyId, count + 1);
      if (databaseUrl !== undefined) {
        listener ??= listenTo(databaseUrl, ROOMS_CHANNEL, onNotification, (reason) => onLost?.(reason));
      }
      try {
        await serve(req, res, keyId, source);
      } finally {
        const left = (perKey.get(keyId) ?? 1) - 1;
        if (left === 0) perKey.delete(keyId);
        else perKey.set(keyId, left);
      }
    },
    async close() {
      closed = true;
      for (const stream of open) stream.end();
      await listener?.stop();
    },
  };
}

const EMPTY_PAGE: StreamPage = { events: [], more: false, resync: null };

/** Returns an empty page when the database does not answer, so that the stream stays open and reads again later. */
async function readOrWait(read: () => Promise<StreamPage | null>): Promise<StreamPage | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof Transient) return EMPTY_PAGE;
    throw error;
  }
}

/** The position in a resync block: a number like `seq` for a room, a cursor for a company's feed. */
function positionOf(id: string): number | string {
  return isSeq(id) ? Number(id) : id;
}

function textOf(page: StreamPage): string {
  const resync =
    page.resync === null
      ? ''
      : `id: ${page.resync}\nevent: resync\ndata: ${JSON.stringify({ after: positionOf(page.resync) })}\n\n`;
  return resync + page.events.map(({ id, resource }) => `id: ${id}\ndata: ${JSON.stringify(resource)}\n\n`).join('');
}

/** Sends text and waits until the client takes it. False when the client does not take it in time or disconnects. */
function write(res: Response, text: string, withinMs: number, ended: AbortSignal): Promise<boolean> {
  if (text === '' || res.write(text)) return Promise.resolve(true);
  return new Promise((resolve) => {
    const finish = (taken: boolean) => (): void => {
      clearTimeout(timer);
      res.off('drain', drained);
      ended.removeEventListener('abort', aborted);
      resolve(taken);
    };
    const [drained, aborted] = [finish(true), finish(false)];
    const timer = setTimeout(aborted, withinMs);
    res.once('drain', drained);
    ended.addEventListener('abort', aborted);
  });
}

/** A flag that one loop waits for. It stays set when it is set before the wait begins. */
function createSignal(): { set(): void; clear(): void; wait(atMostMs: number): Promise<void> } {
  let happened = false;
  let wake: (() => void) | undefined;
  return {
    set() {
      happened = true;
      wake?.();
    },
    clear() {
      happened = false;
    },
    wait(atMostMs) {
      if (happened) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(() => wake?.(), atMostMs);
        wake = () => {
          clearTimeout(timer);
          wake = undefined;
          resolve();
        };
      });
    },
  };
}

/** Runs at most `concurrency` calls at a time, in the order in which they were made. */
function createQueue(concurrency: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= concurrency) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
