// Hears that wakes or signals wait, so that they are carried out at once. A hint only: the polls find what it missed.

import pg from 'pg';

/** A connection that was lost is tried again after this long; meanwhile the poll carries on. */
const RECONNECT_MS = 1_000;

export interface WakeListener {
  stop(): Promise<void>;
}

/**
 * Calls the hint of a channel for every notification, and every hint once after each (re)connection, since those in
 * between were lost.
 */
export function startWakeListener(
  databaseUrl: string,
  hints: Readonly<Record<string, () => void>>,
  onLost: (reason: string) => void,
): WakeListener {
  let stopped = false;
  let client: pg.Client | null = null;
  let retry: NodeJS.Timeout | undefined;

  const connect = async (): Promise<void> => {
    const mine = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'durable-room-listener',
      keepAlive: true,
      connectionTimeoutMillis: 5_000,
    });
    client = mine;
    let lost = false;
    const reconnect = (reason: string): void => {
      if (lost || stopped) return;
      lost = true;
      onLost(reason);
      void mine.end().catch(() => undefined);
      retry = setTimeout(() => void connect(), RECONNECT_MS);
    };
    mine.on('error', (error) => reconnect(error.message));
    mine.on('end', () => reconnect('the connection ended'));
    mine.on('notification', ({ channel }) => hints[channel]?.());
    try {
      await mine.connect();
      for (const channel of Object.keys(hints)) await mine.query(`LISTEN ${channel}`);
      for (const hint of Object.values(hints)) hint();
    } catch (error) {
      reconnect(error instanceof Error ? error.message : 'no connection');
    }
  };
  void connect();

  return {
    async stop() {
      stopped = true;
      clearTimeout(retry);
      await client?.end().catch(() => undefined);
    },
  };
}
