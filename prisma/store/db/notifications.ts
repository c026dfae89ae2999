// Notifies which rooms have new events, and which companies have changes of held actions, after the commit that made
// them. A hint: a listener that misses it finds the change when it polls.
//
// Not in the transaction itself: Postgres makes commits that notify wait for one another, across all rooms, until each is
// on disk. Sent afterwards, and for many commits at once, a notification costs the writers nothing.

import type { SqlTx } from './transaction';

/** The payload is ids of rooms and companies, comma-separated. */
export const ROOMS_CHANNEL = 'durable_room_events';

/** How long commits are gathered into one notification: too short to be seen, and a burst is one statement. */
const GATHER_MS = 5;

/** A payload has less than 8,000 bytes. */
const IDS_PER_HINT = 200;

/** Registers that a transaction appended to a room, or changed a held action of a company: notified after its COMMIT. */
export function notifyAfterCommit(tx: SqlTx, roomOrCompanyId: string): void {
  tx.afterCommit(({ notifier }) => notifier.add(roomOrCompanyId));
}

/** Gathers the ids of committed transactions and sends them together. Never fails, and the writers do not wait for it. */
export class Notifier {
  private readonly send: (payload: string) => Promise<unknown>;
  private gathered = new Set<string>();

  /** `send` notifies `ROOMS_CHANNEL`. */
  constructor(send: (payload: string) => Promise<unknown>) {
    this.send = send;
  }

  add(roomOrCompanyId: string): void {
    if (this.gathered.size === 0) setTimeout(() => this.flush(), GATHER_MS).unref();
    this.gathered.add(roomOrCompanyId);
  }

  private flush(): void {
    const ids = [...this.gathered];
    this.gathered = new Set();
    for (let from = 0; from < ids.length; from += IDS_PER_HINT) {
      this.send(ids.slice(from, from + IDS_PER_HINT).join(',')).catch(() => undefined);
    }
  }
}
