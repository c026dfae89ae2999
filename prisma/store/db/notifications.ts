// Says on a channel which rooms have news, and which companies of their held actions, after the commit that made it. A hint:
// whoever misses it finds the news by looking.
//
// Not in the transaction itself: Postgres makes commits that notify wait for one another, across all rooms, until each is
// on disk. Said afterwards, and by many commits at once, it costs the writers nothing.

import type { Db, SqlTx } from './transaction';

/** The payload is ids of rooms and companies, comma-separated. */
export const ROOMS_CHANNEL = 'durable_room_events';

/** How long commits are gathered before they are told of together: nobody sees it, and a burst is one statement. */
const GATHER_MS = 5;

/** A payload has less than 8,000 bytes. */
const IDS_PER_HINT = 200;

const noted = new WeakMap<SqlTx, Set<string>>();
const gathered = new WeakMap<Db, Set<string>>();

/** Notes that a transaction appended to a room, or changed a held action of a company. */
export function noteNews(tx: SqlTx, roomOrCompanyId: string): void {
  const places = noted.get(tx) ?? new Set();
  noted.set(tx, places.add(roomOrCompanyId));
}

/** Tells of what a committed transaction noted. Never fails, and is not waited for. */
export function tellNews(db: Db, tx: SqlTx | undefined): void {
  const places = tx && noted.get(tx);
  if (places === undefined) return;
  const waiting = gathered.get(db);
  if (waiting !== undefined) {
    for (const place of places) waiting.add(place);
    return;
  }
  gathered.set(db, places);
  setTimeout(() => {
    gathered.delete(db);
    const ids = [...places];
    for (let from = 0; from < ids.length; from += IDS_PER_HINT) {
      const payload = ids.slice(from, from + IDS_PER_HINT).join(',');
      db.$queryRaw`SELECT pg_notify(${ROOMS_CHANNEL}, ${payload})::text AS told`.catch(() => undefined);
    }
  }, GATHER_MS).unref();
}
