// Files of a room. An upload is `POST …/files?name=plan.pdf` with the bytes as the body; the content is returned
// unchanged.

import { z } from 'zod';
import { RoomDraft } from '../../prisma/store/rooms/room-draft';
import {
  FILE_MEDIA_TYPES,
  FILE_NAME_LIMIT,
  fileResource,
  listFiles,
  loadFile,
  loadFileContent,
  stageFile,
  type FileMediaType,
} from '../../prisma/store/files/files';
import { InvalidInput } from '../../prisma/store/db/errors';
import { viewRoom } from '../../prisma/store/rooms/rooms';
import { viewerOf } from '../middleware/caller';
import { admitPoster, requireRight } from '../middleware/room-access';
import { Problem } from '../problems';
import { created, FILE_BYTES, ok, readRoute, uploadRoute, type Route } from '../route';
import { pageOf } from '../schemas/answers';
import { shownFile } from '../schemas/file-answers';
import { listBody, listQuery, pageRequest } from '../schemas/lists';

/** The file name without the characters that break a line or change the reading direction. */
const fileName = z
  .string('the name of the file')
  .transform((given) => given.replace(/[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu, '').trim())
  .refine(
    (name) => name !== '' && Array.from(name).length <= FILE_NAME_LIMIT,
    `a name of 1 to ${FILE_NAME_LIMIT} characters`,
  );

const BY_EXTENSION: Readonly<Record<string, FileMediaType>> = {
  txt: 'text/plain',
  md: 'text/markdown',
  markdown: 'text/markdown',
  csv: 'text/csv',
  json: 'application/json',
  html: 'text/html',
  htm: 'text/html',
  pdf: 'application/pdf',
};

/** The type that the client sent, if it is supported; else the type of the name's extension. */
function mediaTypeOf(given: string | null, name: string): FileMediaType {
  const known = FILE_MEDIA_TYPES.find((type) => type === given);
  const extension = /\.([a-z]+)$/i.exec(name)?.[1]?.toLowerCase() ?? '';
  const type = known ?? (Object.hasOwn(BY_EXTENSION, extension) ? BY_EXTENSION[extension] : undefined);
  if (type !== undefined) return type;
  throw new Problem('unsupported_media_type', `the file must be one of ${FILE_MEDIA_TYPES.join(', ')}`);
}

export const fileRoutes: readonly Route[] = [
  uploadRoute({
    path: '/v1/rooms/:room/files',
    role: 'company',
    summary: 'Add a file to a room',
    success: created(shownFile),
    query: z.strictObject({ name: fileName }),
    async handle(tx, { caller, ids, body, query }) {
      const mediaType = mediaTypeOf(body.mediaType, query.name);
      if (body.bytes.length === 0) throw new InvalidInput('the file is empty');
      const poster = await admitPoster(tx, ids.room, caller);
      requireRight(poster, 'reply');
      const draft = new RoomDraft(ids.room);
      const { resource } = await stageFile(tx, draft, {
        author: poster.author,
        name: query.name,
        mediaType,
        bytes: body.bytes,
      });
      await draft.append(tx);
      return { status: 201, body: resource };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/files',
    role: 'company',
    summary: 'List the files of a room',
    success: ok(pageOf(shownFile)),
    query: listQuery('file'),
    async handle(db, { caller, ids, query }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: listBody(await listFiles(db, ids.room, pageRequest(query)), fileResource) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/files/:file',
    role: 'company',
    summary: 'Get a file',
    success: ok(shownFile),
    async handle(db, { caller, ids }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, body: fileResource(await loadFile(db, ids.room, ids.file)) };
    },
  }),
  readRoute({
    path: '/v1/rooms/:room/files/:file/content',
    role: 'company',
    summary: 'Get the bytes of a file, unchanged',
    success: ok(FILE_BYTES),
    async handle(db, { caller, ids }) {
      await viewRoom(db, viewerOf(caller), ids.room);
      return { status: 200, file: await loadFileContent(db, ids.room, ids.file) };
    },
  }),
];
