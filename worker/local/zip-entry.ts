// Extracts one file from a zip archive, such as a wheel, with Node's inflate: `unzip` is often missing in containers.
import { createReadStream, createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';

// Constants of the zip format (APPNOTE 4.3): signatures, and sizes of the fixed parts.
const END_SIGNATURE = 0x06054b50;
const END_BYTES = 22;
const LONGEST_COMMENT_BYTES = 65_535;
const ENTRY_SIGNATURE = 0x02014b50;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;
const STORED = 0;
const DEFLATED = 8;

interface Entry {
  readonly name: string;
  readonly method: number;
  readonly compressedBytes: number;
  readonly localOffset: number;
}

/** Writes the first entry whose name fits to a new file. Throws if there is none or the archive is damaged. No zip64. */
export async function extractZipEntry(archive: string, fits: (name: string) => boolean, to: string): Promise<void> {
  const file = await open(archive, 'r');
  let start: number;
  let entry: Entry | undefined;
  try {
    const { size } = await file.stat();
    const read = async (position: number, length: number): Promise<Buffer> => {
      const buffer = Buffer.alloc(length);
      const { bytesRead } = await file.read(buffer, 0, length, position);
      if (bytesRead < length) throw new Error('the archive is cut off');
      return buffer;
    };
    const tailBytes = Math.min(size, END_BYTES + LONGEST_COMMENT_BYTES);
    const { offset, length } = findDirectory(await read(size - tailBytes, tailBytes));
    entry = listEntries(await read(offset, length)).find(({ name }) => fits(name));
    if (entry === undefined) throw new Error('the archive does not hold the file');
    const local = await read(entry.localOffset, LOCAL_BYTES);
    start = entry.localOffset + LOCAL_BYTES + local.readUInt16LE(26) + local.readUInt16LE(28);
  } finally {
    await file.close();
  }
  if (entry.method !== STORED && entry.method !== DEFLATED) throw new Error(`unknown compression ${entry.method}`);
  await pipeline(
    createReadStream(archive, { start, end: start + entry.compressedBytes - 1 }),
    entry.method === DEFLATED ? createInflateRaw() : new PassThrough(),
    createWriteStream(to, { flags: 'wx', mode: 0o700 }),
  );
}

function findDirectory(tail: Buffer): { offset: number; length: number } {
  for (let at = tail.length - END_BYTES; at >= 0; at -= 1) {
    if (tail.readUInt32LE(at) === END_SIGNATURE) {
      return { length: tail.readUInt32LE(at + 12), offset: tail.readUInt32LE(at + 16) };
    }
  }
  throw new Error('not a zip archive');
}

function listEntries(directory: Buffer): Entry[] {
  const entries: Entry[] = [];
  let at = 0;
  while (at + ENTRY_BYTES <= directory.length && directory.readUInt32LE(at) === ENTRY_SIGNATURE) {
    const nameBytes = directory.readUInt16LE(at + 28);
    entries.push({
      name: directory.toString('utf8', at + ENTRY_BYTES, at + ENTRY_BYTES + nameBytes),
      method: directory.readUInt16LE(at + 10),
      compressedBytes: directory.readUInt32LE(at + 20),
      localOffset: directory.readUInt32LE(at + 42),
    });
    at += ENTRY_BYTES + nameBytes + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  return entries;
}
