// The backlog: how many rows wait in the database, and for how long. The metrics of each process read it.

import type { Database } from '../db/database';
import { inStatement } from '../db/sql-errors';

export interface Backlog {
  readonly counts: Readonly<Record<string, number>>;
  readonly oldestSeconds: Readonly<Record<string, number>>;
}

/** One statement. Each line reads one partial index, so finished rows cost nothing. */
export async function loadBacklog(db: Database): Promise<Backlog> {
  const rows = await inStatement(
    db.$queryRaw<{ what: string; n: number; seconds: number }[]>`
      SELECT what, n::int, greatest(coalesce(extract(epoch FROM clock_ms() - since), 0), 0)::float8 AS seconds FROM (
        SELECT 'wakes_pending' AS what, count(*) AS n, min(created_at) AS since FROM wakes WHERE state = 'pending'
        UNION ALL SELECT 'wakes_delivered', count(*), min(delivered_at) FROM wakes WHERE state = 'delivered'
        UNION ALL SELECT 'runs_open', count(*), min(claimed_at) FROM runs WHERE state = 'open'
        UNION ALL SELECT 'held_actions', count(*), min(opened_at) FROM held_actions WHERE state = 'held'
      ) AS backlog`,
  );
  return {
    counts: Object.fromEntries(rows.map(({ what, n }) => [what, n])),
    oldestSeconds: Object.fromEntries(rows.map(({ what, seconds }) => [what, seconds])),
  };
}
