// The queue of files for the parser loop: takes a file, writes its passages, records its end.
//
//   processing ──passages written──▶ ready
//              ──refused, or tried too often──▶ unreadable (code)
//
// When the lease of a dead parser expires, another attempt takes the file. Every write names its attempt: an attempt
// that has a successor changes nothing.

import type { UnreadableCode } from './files';
import { newId } from '../db/ids';
import type { Database } from '../db/database';
import type { SqlTx } from '../db/transaction';

/** The lease of an attempt, renewed with every batch of passages: three times the parser's limit of 10 s. */
const LEASE_SECONDS = 30;

/** Attempts that may end without a result (a killed worker, a busy machine) before the file becomes unreadable. */
const ATTEMPTS_LIMIT = 3;

/** Passages of one transaction: 0.5 MB of text, which Postgres writes in less than a second. */
const BATCH = 500;

export interface FileToParse {
  readonly id: string;
  readonly roomId: string;
  readonly mediaType: string;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  readonly bytes: Buffer;
}

export interface PassageToWrite {
  readonly text: string;
  readonly page: number | null;
  readonly line: number | null;
  readonly start: number;
}

/**
 * Leases the file that has waited longest, or returns null when no file waits. Skips files that others hold, and
 * refuses files that have no attempts left.
 */
export async function takeFile(db: Database): Promise<FileToParse | null> {
  for (;;) {
    const [taken] = await db.$queryRaw<FileToParse[]>`
      WITH due AS (
        SELECT id FROM files WHERE state = 'processing' AND due_at <= clock_ms()
        ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
      ), taken AS (
        UPDATE files SET attempts = attempts + 1, due_at = clock_ms() + make_interval(secs => ${LEASE_SECONDS})
        FROM due WHERE files.id = due.id
        RETURNING files.id, room_id, media_type, attempts
      )
      SELECT t.id, t.room_id AS "roomId", t.media_type AS "mediaType", t.attempts AS attempt, c.bytes
      FROM taken t JOIN file_contents c ON c.file_id = t.id`;
    if (!taken) return null;
    if (taken.attempt <= ATTEMPTS_LIMIT) return taken;
    await refuseFile(db, taken, 'parser_failed');
  }
}

/**
 * Writes the passages of a file and makes it ready. False when this attempt has a successor; then no visible row
 * changes.
 *
 * Uses several transactions, and each renews the lease. Passages are not visible before their file is ready.
 */
export async function finishFile(
  db: Database,
  file: Pick<FileToParse, 'id' | 'roomId' | 'attempt'>,
  read: { passages: readonly PassageToWrite[]; pages: number | null },
): Promise<boolean> {
  const batches = Math.max(1, Math.ceil(read.passages.length / BATCH));
  for (let n = 0; n < batches; n += 1) {
    const written = await db.sqlTransaction(async (tx) => {
      if (!(await holdFile(tx, file))) return false;
      // Passages of an earlier attempt that did not finish.
      if (n === 0) await tx.$executeRaw`DELETE FROM passages WHERE file_id = ${file.id}`;
      const rows = read.passages.slice(n * BATCH, (n + 1) * BATCH).map((passage, index) => ({
        id: newId('psg'),
        number: n * BATCH + index + 1,
        ...passage,
      }));
      await tx.$executeRaw`
        INSERT INTO passages (id, file_id, room_id, number, text, page, line, start)
        SELECT x.id, ${file.id}, ${file.roomId}, x.number, x.text, x.page, x.line, x.start
        FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
          AS x(id text, number int, text text, page int, line int, start int)`;
      if (n < batches - 1) return true;
      await tx.$executeRaw`
        UPDATE files SET state = 'ready', pages = ${read.pages}::int, parsed_at = clock_ms() WHERE id = ${file.id}`;
      return true;
    });
    if (!written) return false;
  }
  return true;
}

/** Marks a file as unreadable, permanently. False when this attempt has a successor. */
export async function refuseFile(
  db: Database,
  file: Pick<FileToParse, 'id' | 'attempt'>,
  code: UnreadableCode,
): Promise<boolean> {
  const refused = await db.$executeRaw`
    UPDATE files SET state = 'unreadable', code = ${code}, parsed_at = clock_ms()
    WHERE id = ${file.id} AND state = 'processing' AND attempts = ${file.attempt}`;
  return refused === 1;
}

/** True for the last attempt of a file. */
export function isLastAttempt(file: Pick<FileToParse, 'attempt'>): boolean {
  return file.attempt >= ATTEMPTS_LIMIT;
}

/** Makes a file due at once for another attempt. An attempt that we `interrupted` does not count. */
export async function releaseFile(
  db: Database,
  file: Pick<FileToParse, 'id' | 'attempt'>,
  { interrupted }: { interrupted: boolean },
): Promise<void> {
  await db.$executeRaw`
    UPDATE files SET due_at = clock_ms(), attempts = attempts - ${interrupted ? 1 : 0}::int
    WHERE id = ${file.id} AND state = 'processing' AND attempts = ${file.attempt}`;
}

/** Locks a file and renews its lease, if this attempt has no successor. */
async function holdFile(tx: SqlTx, file: Pick<FileToParse, 'id' | 'attempt'>): Promise<boolean> {
  const held = await tx.$executeRaw`
    UPDATE files SET due_at = clock_ms() + make_interval(secs => ${LEASE_SECONDS})
    WHERE id = ${file.id} AND state = 'processing' AND attempts = ${file.attempt}`;
  return held === 1;
}
