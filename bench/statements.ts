// Statement counts from pg_stat_statements, by database and role. Each kind of process has its own role.

import type pg from 'pg';

/** Statements of transaction control and connection set-up, which are not counted. */
const UTILITY = /^(begin|commit|rollback|savepoint|release|start transaction|set |show |listen|deallocate|discard)/i;

export interface Statement {
  readonly calls: number;
  readonly totalMs: number;
  readonly rows: number;
}

/** Calls by statement text. */
export type Statements = ReadonlyMap<string, Statement>;

/** The statements of one role in the connected database so far, without transaction control. */
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

/** The statements between two readings, most frequent first. */
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
