// Says on a channel which rooms have news, after the commit that made it. A hint: whoever misses it finds the news by
// looking.
//
// Not in the transaction itself: Postgres makes commits that notify wait for one another, across all rooms, until each is
// on disk. Said afterwards, and by many commits at once, it costs the writers nothing.

import type { Db, SqlTx } from './transaction';

/** The payload is the ids of rooms, comma-separated. */
export const ROOMS_CHANNEL = 'durable_room_events';

/** How long commits are gathered before they are told of together: nobody sees it, and a burst is one statement. */
const GATHER_MS = 5;

/** A payload has less than 8,000 bytes. */
const ROOMS_PER_HINT = 200;

const appended = new WeakMap<SqlTx, Set<string>>();
const gathered = new WeakMap<Db, Set<string>>();

/** Notes that a transaction appended to a room. */
export function noteNews(tx: SqlTx, roomId: string): void {
  const rooms = appended.get(tx) ?? new Set();
  appended.set(tx, rooms.add(roomId));
}

/** Tells of what a committed transaction noted. Never fails, and is not waited for. */
export function tellNews(db: Db, tx: SqlTx | undefined): void {
  const rooms = tx && appended.get(tx);
  if (rooms === undefined) return;
  const waiting = gathered.get(db);
  if (waiting !== undefined) {
    for (const room of rooms) waiting.add(room);
    return;
  }
  gathered.set(db, rooms);
  setTimeout(() => {
    gathered.delete(db);
    const ids = [...rooms];
    for (let from = 0; from < ids.length; from += ROOMS_PER_HINT) {
      const payload = ids.slice(from, from + ROOMS_PER_HINT).join(',');
      db.$queryRaw`SELECT pg_notify(${ROOMS_CHANNEL}, ${payload})::text AS told`.catch(() => undefined);
    }
  }, GATHER_MS).unref();
}
