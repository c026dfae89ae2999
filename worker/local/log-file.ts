// The log file for the output of a child server. A pipe would end or block the server if its reader were killed.
import { open, readFile, rename, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';

// Checked when the server starts; one older file is kept.
const ROTATE_BYTES = 10 * 1024 * 1024;
const TAIL_LINES = 15;
// Some errors of the Temporal server are pages long in one line.
const LONGEST_LINE = 500;

export interface LogFile {
  readonly path: string;
  readonly handle: FileHandle;
  /** Reads what was written since the file was opened. */
  readNew(): Promise<string>;
}

/** Opens the file for appending. The caller closes `handle` after it started the child. */
export async function openLogFile(path: string): Promise<LogFile> {
  const size = await sizeOf(path);
  if (size > ROTATE_BYTES) await rename(path, `${path}.1`);
  const handle = await open(path, 'a', 0o600);
  const from = size > ROTATE_BYTES ? 0 : size;
  return {
    path,
    handle,
    async readNew() {
      const content = await readFile(path);
      return content.subarray(from).toString('utf8');
    },
  };
}

/** The last lines of an output, for the end of an error message. */
export function lastLines(output: string): string {
  const lines = output.trimEnd().split('\n').slice(-TAIL_LINES);
  const shown = lines.map((line) => (line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)} […]` : line));
  return shown.join('\n') || '(it wrote nothing)';
}

async function sizeOf(path: string): Promise<number> {
  return await stat(path).then(
    (entry) => entry.size,
    () => 0,
  );
}
