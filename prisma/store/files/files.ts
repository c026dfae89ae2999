// Files of a room: members add and read them. A file's name is shown and is never used as a path. A parser process
// reads the content (queue: parse-queue.ts), and a search finds it as passages (passages.ts).

import { createHash } from 'node:crypto';
import type { File } from '../../generated/client';
import type { Author, RoomDraft } from '../rooms/room-draft';
import { NotFound } from '../db/errors';
import { newId } from '../db/ids';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import type { Reader, SqlTx } from '../db/transaction';

export const FILE_MEDIA_TYPES = [
  'text/plain',
  'text/markdown',
  'text/csv',
  'application/json',
  'text/html',
  'application/pdf',
] as const;
export type FileMediaType = (typeof FILE_MEDIA_TYPES)[number];

export const FILE_STATES = ['processing', 'ready', 'unreadable'] as const;

/** Why a file is unreadable. `parser_failed`: every parser process of the file ended without a result. */
export const UNREADABLE_CODES = [
  'binary',
  'no_text',
  'broken',
  'encrypted',
  'too_many_pages',
  'too_much_text',
  'too_much_memory',
  'too_slow',
  'parser_failed',
  'redacted',
] as const;
export type UnreadableCode = (typeof UNREADABLE_CODES)[number];

/** The longest name of a file, in characters. The database has the same limit. */
export const FILE_NAME_LIMIT = 500;

/**
 * Writes a file for the parser queue, and stages its event.
 *
 * The bytes are written before the lock of the room is taken, so a slow write delays no other writer of the room.
 */
export async function stageFile(
  tx: SqlTx,
  draft: RoomDraft,
  file: { author: Author; name: string; mediaType: FileMediaType; bytes: Buffer },
): Promise<{ fileId: string; eventId: string; resource: Record<string, unknown> }> {
  const { author, name, mediaType, bytes } = file;
  const fileId = newId('file');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const [row] = await tx.$queryRaw<{ createdAt: Date }[]>`
    INSERT INTO files (id, room_id, company_id, author_kind, author_id, author_name, name, media_type, size_bytes, sha256)
    VALUES (${fileId}, ${draft.roomId}, ${author.companyId}, ${author.kind}, ${author.id}, ${author.name}, ${name},
            ${mediaType}, ${bytes.length}::int, ${sha256})
    RETURNING created_at AS "createdAt"`;
  await tx.$executeRaw`INSERT INTO file_contents (file_id, bytes) VALUES (${fileId}, ${bytes})`;
  const resource = fileResource({
    id: fileId,
    roomId: draft.roomId,
    companyId: author.companyId,
    authorKind: author.kind,
    authorId: author.id,
    authorName: author.name,
    name,
    mediaType,
    sizeBytes: bytes.length,
    sha256,
    state: 'processing',
    code: null,
    pages: null,
    createdAt: (row as { createdAt: Date }).createdAt,
    parsedAt: null,
    redactedAt: null,
  });
  const eventId = draft.addEvent({ type: 'file_added', author, subjectId: fileId, data: resource });
  return { fileId, eventId, resource };
}

/** Erases the content, name and passages of a file. A parser that still has the file changes nothing after this. */
export async function eraseFile(tx: SqlTx, fileId: string, at: Date): Promise<void> {
  await tx.$executeRaw`
    UPDATE files SET name = '', sha256 = '', state = 'unreadable', code = 'redacted', redacted_at = ${at},
                     parsed_at = coalesce(parsed_at, ${at})
    WHERE id = ${fileId}`;
  await tx.$executeRaw`DELETE FROM passages WHERE file_id = ${fileId}`;
  await tx.$executeRaw`DELETE FROM file_contents WHERE file_id = ${fileId}`;
}

/** A file as all members of its room see it. */
export function fileResource(file: Omit<File, 'attempts' | 'dueAt'>): Record<string, unknown> {
  return {
    id: file.id,
    room: file.roomId,
    company: file.companyId,
    author: { kind: file.authorKind, id: file.authorId, name: file.authorName },
    name: file.name,
    media_type: file.mediaType,
    size: file.sizeBytes,
    sha256: file.sha256,
    state: file.state,
    code: file.code,
    pages: file.pages,
    created_at: file.createdAt.toISOString(),
    parsed_at: file.parsedAt?.toISOString() ?? null,
    redacted_at: file.redactedAt?.toISOString() ?? null,
  };
}

/** A room's files, by id. */
export async function listFiles(reader: Reader, roomId: string, page: PageRequest): Promise<Page<File>> {
  const { where, ...rest } = byId(page);
  const files = await reader.file.findMany({ where: { ...where, roomId }, ...rest });
  return pageOf(files, page, (file) => file.id);
}

/** @throws NotFound when this room has no such file */
export async function loadFile(reader: Reader, roomId: string, fileId: string): Promise<File> {
  const file = await reader.file.findUnique({ where: { id: fileId, roomId } });
  if (!file) throw new NotFound('no such file in this room');
  return file;
}

/** The uploaded bytes. @throws NotFound when this room has no such file, or its content was redacted */
export async function loadFileContent(
  reader: Reader,
  roomId: string,
  fileId: string,
): Promise<{ name: string; mediaType: string; bytes: Buffer }> {
  const [file] = await reader.$queryRaw<{ name: string; mediaType: string; bytes: Uint8Array }[]>`
    SELECT f.name, f.media_type AS "mediaType", c.bytes
    FROM files f JOIN file_contents c ON c.file_id = f.id
    WHERE f.id = ${fileId} AND f.room_id = ${roomId}`;
  if (!file) throw new NotFound('no such file in this room');
  return { ...file, bytes: Buffer.from(file.bytes.buffer, file.bytes.byteOffset, file.bytes.byteLength) };
}
