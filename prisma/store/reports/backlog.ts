// What waits in the database, and for how long. Read by the metrics of each process; each line is one partial index.

import type { Database } from '../db/database';
import { inStatement } from '../db/sql-errors';

export interface Standing {
  readonly counts: Readonly<Record<string, number>>;
  readonly oldestSeconds: Readonly<Record<string, number>>;
}

/** One statement, by partial indexes: what is over is not read, however much of it there is. */
export async function loadStanding(db: Database): Promise<Standing> {
  const rows = await inStatement(
    db.$queryRaw<{ what: string; n: number; seconds: number }[]>`
      SELECT what, n::int, greatest(coalesce(extract(epoch FROM clock_ms() - since), 0), 0)::float8 AS seconds FROM (
        SELECT 'wakes_pending' AS what, count(*) AS n, min(created_at) AS since FROM wakes WHERE state = 'pending'
        UNION ALL SELECT 'wakes_delivered', count(*), min(delivered_at) FROM wakes WHERE state = 'delivered'
        UNION ALL SELECT 'runs_open', count(*), min(claimed_at) FROM runs WHERE state = 'open'
        UNION ALL SELECT 'held_actions', count(*), min(opened_at) FROM held_actions WHERE state = 'held'
      ) AS standing`,
  );
  return {
    counts: Object.fromEntries(rows.map(({ what, n }) => [what, n])),
    oldestSeconds: Object.fromEntries(rows.map(({ what, seconds }) => [what, seconds])),
  };
}
