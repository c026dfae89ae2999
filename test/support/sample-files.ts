// Sample files for uploads, and the parser for them. The PDFs are written by hand and small enough to read.

import type { Database } from '../../prisma/store/db/database';
import { readFileOnce } from '../../worker/file-loop';
import type { ParseOutcome } from '../../worker/file-parser/limits';
import { parseInProcess, type ParserOptions } from '../../worker/file-parser/parser-process';
import type { ApiAnswer, ApiClient } from './api';

/** A PDF with these page texts (ASCII). */
export function makePdf(pages: readonly string[], extraInCatalog = ''): Buffer {
  const objects = [
    `<< /Type /Catalog /Pages 2 0 R ${extraInCatalog} >>`,
    `<< /Type /Pages /Kids [${pages.map((_, n) => `${4 + 2 * n} 0 R`).join(' ')}] /Count ${pages.length} >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ...pages.flatMap((text, n) => {
      const lines = text.split('\n').map((line) => `(${line.replace(/[\\()]/g, '\\$&')}) Tj 0 -14 Td`);
      const stream = `BT /F1 12 Tf 72 720 Td ${lines.join(' ')} ET`;
      return [
        `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents ${5 + 2 * n} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
        `<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`,
      ];
    }),
  ];
  let text = '%PDF-1.4\n';
  const offsets = objects.map((object, n) => {
    const at = text.length;
    text += `${n + 1} 0 obj\n${object}\nendobj\n`;
    return at;
  });
  const xref = text.length;
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`;
  for (const at of offsets) text += `${String(at).padStart(10, '0')} 00000 n \n`;
  text += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${xref}\n%%EOF\n`;
  return Buffer.from(text, 'latin1');
}

/** The first bytes of a PNG, and noise. */
export const PNG = Buffer.concat([
  Buffer.from('89504e470d0a1a0a0000000d49484452000000100000001008060000001ff3ff61', 'hex'),
  Buffer.from(Array.from({ length: 400 }, (_, n) => (n * 73) % 256)),
]);

/** Uploads a file through the API. */
export function upload(
  client: ApiClient,
  room: string,
  name: string,
  body: string | Uint8Array,
  headers: Record<string, string> = { 'content-type': 'application/octet-stream' },
): Promise<ApiAnswer> {
  return client.send('POST', `${room}/files?name=${encodeURIComponent(name)}`, { body, headers });
}

/** The file parser, compiled by global-setup.ts: node can't fork a TypeScript source. */
const PARSER_MAIN = process.env['TEST_FILE_PARSER'] ?? '';

/** Parses all waiting files in the way of the worker's file loop. */
export async function readWaitingFiles(db: Database, options: ParserOptions = {}): Promise<void> {
  while (await readFileOnce({ db, main: PARSER_MAIN, onUnreadable: () => undefined, ...options }));
}

/** Parses one file that is in no room. */
export function parse(
  mediaType: string,
  bytes: string | Uint8Array,
  options: ParserOptions = {},
): Promise<ParseOutcome> {
  return parseInProcess({ mediaType, bytes: Buffer.from(bytes) }, { main: PARSER_MAIN, ...options });
}
