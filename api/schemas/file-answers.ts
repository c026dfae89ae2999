// Schemas of the answers about files and their passages.

import { z } from 'zod';
import { FILE_MEDIA_TYPES, UNREADABLE_CODES } from '../../prisma/store/files/files';
import { at, author, count, shownId } from './answers';

export const shownFile = z
  .object({
    id: shownId('file'),
    room: shownId('room'),
    company: shownId('co'),
    author,
    name: z.string(),
    media_type: z.enum(FILE_MEDIA_TYPES),
    size: count,
    sha256: z.string(),
    state: z.enum(['processing', 'ready', 'unreadable']),
    code: z.enum(UNREADABLE_CODES).nullable(),
    pages: count.nullable(),
    created_at: at,
    parsed_at: at.nullable(),
    redacted_at: at.nullable(),
  })
  .meta({ id: 'File' });

export const shownPassage = z
  .object({
    id: shownId('psg'),
    room: shownId('room'),
    file: shownId('file'),
    file_name: z.string(),
    number: count,
    page: count.nullable(),
    line: count.nullable(),
    start: count,
    text: z.string(),
  })
  .meta({ id: 'Passage', description: 'Cite a passage by its file, with the page or the line.' });
