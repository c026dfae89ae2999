// Listens on one channel of Postgres, on a separate connection. A hint only: the caller polls as well and finds what was
// missed here.

import pg from 'pg';

/** Pause before a lost connection is opened again; the caller polls meanwhile. */
const RECONNECT_MS = 1_000;

export interface ChannelListener {
  stop(): Promise<void>;
}

/**
 * Calls `onHint` with the payload of every notification, and with null after each connection: earlier hints may be lost.
 */
export function listenTo(
  databaseUrl: string,
  channel: string,
  onHint: (payload: string | null) => void,
  onLost: (reason: string) => void,
): ChannelListener {
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
    mine.on('notification', ({ payload }) => onHint(payload ?? ''));
    try {
      await mine.connect();
      await mine.query(`LISTEN ${channel}`);
      onHint(null);
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
