// Server-sent events. Each stream reads the table from its own position, woken by hints and by a poll behind them, and only
// when its client has taken what was sent before: so none misses an event, and a slow one harms nobody.

import type { Request, Response } from 'express';
import { listenTo, type ChannelListener } from '../prisma/channel-listener';
import { NotFound, Transient } from '../prisma/store/db/errors';
import { ROOMS_CHANNEL } from '../prisma/store/db/notifications';
import type { Database } from '../prisma/store/db/database';
import { inStatement } from '../prisma/store/db/sql-errors';
import type { Reader } from '../prisma/store/db/transaction';
import type { Caller } from './callers';
import { isSeq } from './cursors';
import { Problem } from './problems';

export interface StreamPage {
  readonly events: readonly { readonly id: string; readonly resource: Record<string, unknown> }[];
  /** There is more to read at once. */
  readonly more: boolean;
  /** The place from which the stream goes on, because the one that the client named is not known; else null. */
  readonly resync: string | null;
}

/** What a stream sends. It keeps its own position. */
export interface StreamSource {
  /** Whether news of a room, or of a company's held actions, are its own. */
  concerns(roomOrCompanyId: string): boolean;
  /** Goes on after the event that a client had last. */
  resume(lastEventId: string): void;
  /** What comes next. Null once the key's holder may not read it any more. */
  read(reader: Reader, keyId: string): Promise<StreamPage | null>;
}

export interface StreamSettings {
  readonly streamsPerKey: number;
  /** How often each stream looks without a hint: how long news can be late, and a revoked key keeps its streams. */
  readonly pollMs: number;
  /** How often an idle stream says that it lives: proxies cut what is silent for a minute or so. */
  readonly heartbeatMs: number;
  /** How long a client may leave what was sent to it untaken. */
  readonly slowMs: number;
}

export const STREAM_SETTINGS: StreamSettings = {
  streamsPerKey: 10,
  pollMs: 2_000,
  heartbeatMs: 15_000,
  slowMs: 20_000,
};

export interface Streams {
  /** Serves a stream until either side ends it. @throws Problem, NotFound, before anything was sent */
  open(req: Request, res: Response, caller: Caller, source: StreamSource): Promise<void>;
  /** Ends every stream and takes no more. Idempotent. */
  close(): Promise<void>;
}

/** How soon the browser's EventSource comes back. */
const RECONNECT_MS = 2_000;
/** How long a client that has too many streams is asked to wait: as long as one that was closed may still count. */
const TOO_MANY_RETRY_SECONDS = 5;
/** Reads at once, of all streams: news in a room with a thousand readers must not take every connection. */
const READS_AT_ONCE = 4;

interface Stream {
  readonly source: StreamSource;
  wake(): void;
  end(): void;
}

/** `databaseUrl`: where to listen for hints. Without it, streams only poll. */
export function createStreams(
  { db, databaseUrl, onLost }: { db: Database; databaseUrl?: string; onLost?: (reason: string) => void },
  settings: StreamSettings = STREAM_SETTINGS,
): Streams {
  const open = new Set<Stream>();
  const perKey = new Map<string, number>();
  const inTurn = createTurns(READS_AT_ONCE);
  let listener: ChannelListener | undefined;
  let closed = false;

  const onHint = (payload: string | null): void => {
    const places = payload?.split(',');
    for (const stream of open) {
      if (places === undefined || places.some((place) => stream.source.concerns(place))) stream.wake();
    }
  };

  const serve = async (req: Request, res: Response, keyId: string, source: StreamSource): Promise<void> => {
    const lastEventId = req.get('last-event-id');
    if (lastEventId !== undefined && lastEventId !== '') source.resume(lastEventId);
    const read = (): Promise<StreamPage | null> => inTurn(() => inStatement(source.read(db, keyId)));

    const news = createSignal();
    const gone = new AbortController();
    res.once('close', () => gone.abort());
    const stream: Stream = { source, wake: () => news.set(), end: () => gone.abort() };
    gone.signal.addEventListener('abort', () => news.set());
    // Before the first read: what is said between it and the next must not be lost.
    open.add(stream);
    const heartbeat = setInterval(() => {
      if (res.headersSent && !res.writableNeedDrain) res.write(': \n\n');
    }, settings.heartbeatMs);
    try {
      let page = await read();
      if (page === null) throw new NotFound('no such room');
      res.status(200).set({ 'Content-Type': 'text/event-stream; charset=utf-8', 'X-Accel-Buffering': 'no' });
      res.write(`retry: ${RECONNECT_MS}\n\n`);
      while (!gone.signal.aborted && page !== null) {
        const taken = await write(res, textOf(page), settings.slowMs, gone.signal);
        if (!taken) {
          // What it has not taken is held for it in vain: no polite end would reach it.
          res.destroy();
          break;
        }
        if (!page.more) await news.wait(settings.pollMs);
        if (gone.signal.aborted) break;
        news.clear();
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
        listener ??= listenTo(databaseUrl, ROOMS_CHANNEL, onHint, (reason) => onLost?.(reason));
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

const NOTHING: StreamPage = { events: [], more: false, resync: null };

/** A stream outlives a database that is away for a moment: it looks again at its next turn. */
async function readOrWait(read: () => Promise<StreamPage | null>): Promise<StreamPage | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof Transient) return NOTHING;
    throw error;
  }
}

/** Where a stream goes on, as its own events tell places: a room's as a number, like `seq`; the company's feed as a cursor. */
function placeOf(id: string): number | string {
  return isSeq(id) ? Number(id) : id;
}

function textOf(page: StreamPage): string {
  const resync =
    page.resync === null
      ? ''
      : `id: ${page.resync}\nevent: resync\ndata: ${JSON.stringify({ after: placeOf(page.resync) })}\n\n`;
  return resync + page.events.map(({ id, resource }) => `id: ${id}\ndata: ${JSON.stringify(resource)}\n\n`).join('');
}

/** Sends text, and waits until the client has taken it. False when it does not, or is gone. */
function write(res: Response, text: string, withinMs: number, gone: AbortSignal): Promise<boolean> {
  if (text === '' || res.write(text)) return Promise.resolve(true);
  return new Promise((resolve) => {
    const finish = (taken: boolean) => (): void => {
      clearTimeout(timer);
      res.off('drain', drained);
      gone.removeEventListener('abort', aborted);
      resolve(taken);
    };
    const [drained, aborted] = [finish(true), finish(false)];
    const timer = setTimeout(aborted, withinMs);
    res.once('drain', drained);
    gone.addEventListener('abort', aborted);
  });
}

/** Something that may have happened while nobody waited for it. */
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

/** At most `atOnce` of the given work at a time, first come first served. */
function createTurns(atOnce: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve));
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
