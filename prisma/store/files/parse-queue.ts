// What the parser's loop asks of the store: a file to read, its passages written, and its end.
//
//   processing ──passages written──▶ ready
//              ──refused, or tried too often──▶ unreadable (code)
//
// A parser that died is followed by another when its lease is over. Each ending names its attempt, so an attempt that has a
// successor changes nothing.

import type { UnreadableCode } from './files';
import { newId } from '../db/ids';
import type { Database } from '../db/database';
import type { SqlTx } from '../db/transaction';

/** How long an attempt has a file alone, from its start and from each batch of passages: three times the parser's 10 s. */
const LEASE_SECONDS = 30;

/** Attempts that may end without a result (a killed worker, a busy machine) before the file is given up. */
const ATTEMPTS_LIMIT = 3;

/** Passages of one transaction: half a megabyte of text, which Postgres takes in well within a second. */
const BATCH = 500;

export interface FileToParse {
  readonly id: string;
  readonly roomId: string;
  readonly mediaType: string;
  /** Which attempt this is, from 1. */
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
 * Takes the file that has waited longest, for the length of a lease; null when none waits. Files that others hold are
 * passed over, and what was tried too often is given up on the way.
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
 * Writes a file's passages and makes it ready. False when another attempt has followed this one: then it changed nothing
 * that anyone reads.
 *
 * In several transactions, each of which renews the lease. Passages are not read before their file is ready.
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
      // What an attempt left that did not come to its end.
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

/** Records why a file can't be read, finally. False when another attempt has followed this one. */
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

/** True when this was the last attempt that a file has. */
export function isLastAttempt(file: Pick<FileToParse, 'attempt'>): boolean {
  return file.attempt >= ATTEMPTS_LIMIT;
}

/** Gives a file back, to be tried again at once; an attempt that was `interrupted` by us does not count. */
export async function releaseFile(
  db: Database,
  file: Pick<FileToParse, 'id' | 'attempt'>,
  { interrupted }: { interrupted: boolean },
): Promise<void> {
  await db.$executeRaw`
    UPDATE files SET due_at = clock_ms(), attempts = attempts - ${interrupted ? 1 : 0}::int
    WHERE id = ${file.id} AND state = 'processing' AND attempts = ${file.attempt}`;
}

/** Locks the file for an attempt that still has it, and renews its lease. */
async function holdFile(tx: SqlTx, file: Pick<FileToParse, 'id' | 'attempt'>): Promise<boolean> {
  const held = await tx.$executeRaw`
    UPDATE files SET due_at = clock_ms() + make_interval(secs => ${LEASE_SECONDS})
    WHERE id = ${file.id} AND state = 'processing' AND attempts = ${file.attempt}`;
  return held === 1;
}
