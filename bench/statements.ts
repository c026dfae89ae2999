// Statements as Postgres itself counts them (pg_stat_statements), told apart by database and by role: every process of the
// bench has a role of its own.

import type pg from 'pg';

/** Not work: what every transaction and every connection says. */
const UTILITY = /^(begin|commit|rollback|savepoint|release|start transaction|set |show |listen|deallocate|discard)/i;

export interface Statement {
  readonly calls: number;
  readonly totalMs: number;
  readonly rows: number;
}

/** Calls by statement text. */
export type Statements = ReadonlyMap<string, Statement>;

/** What one role has sent to the connected database so far, without BEGIN, COMMIT and the like. */
export async function readStatements(client: pg.Client, role: string): Promise<Statements> {
  const { rows } = await client.query<{ query: string; calls: string; total_exec_time: number; rows: string }>(
    `SELECT s.query, s.calls, s.total_exec_time, s.rows
     FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid JOIN pg_database d ON d.oid = s.dbid
     WHERE r.rolname = $1 AND d.datname = current_database() AND s.toplevel`,
    [role],
  );
  const found = new Map<string, Statement>();
  for (const row of rows) {
    const text = row.query.replace(/\s+/g, ' ').trim();
    if (UTILITY.test(text)) continue;
    const before = found.get(text) ?? { calls: 0, totalMs: 0, rows: 0 };
    found.set(text, {
      calls: before.calls + Number(row.calls),
      totalMs: before.totalMs + row.total_exec_time,
      rows: before.rows + Number(row.rows),
    });
  }
  return found;
}

/** What came between two readings, most often called first. */
export function between(before: Statements, after: Statements): (Statement & { text: string })[] {
  const zero = { calls: 0, totalMs: 0, rows: 0 };
  return [...after]
    .map(([text, now]) => {
      const then = before.get(text) ?? zero;
      return {
        text,
        calls: now.calls - then.calls,
        totalMs: now.totalMs - then.totalMs,
        rows: now.rows - then.rows,
      };
    })
    .filter((statement) => statement.calls > 0)
    .sort((a, b) => b.calls - a.calls || b.totalMs - a.totalMs);
}
