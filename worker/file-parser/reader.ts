// Parses one file, in a thread of the parser process. It has no network: the libraries request nothing, and Socket.connect is
// disabled before they see a byte.

import { parentPort, workerData } from 'node:worker_threads';
import { sectionsOfCsv } from './csv';
import { decodeText } from './decode';
import { textOfHtml } from './html';
import { Unreadable, type ParseOutcome, type ParseRequest } from './limits';
import { forbidNetwork } from './no-network';
import { cutPassages, type Section } from './passages';
import { sectionsOfPdf } from './pdf';

/** The passages of a file, or why it can't be parsed. */
async function readFile({ mediaType, bytes, limits }: ParseRequest): Promise<ParseOutcome> {
  try {
    const isPdf = mediaType === 'application/pdf';
    const sections = isPdf ? await sectionsOfPdf(bytes, limits) : await sectionsOfText(mediaType, bytes);
    const length = sections.reduce((sum, section) => sum + section.text.length, 0);
    if (length > limits.text) throw new Unreadable('too_much_text');
    const passages = cutPassages(sections);
    if (passages.length === 0) throw new Unreadable('no_text');
    return { kind: 'read', passages, pages: isPdf ? sections.length : null };
  } catch (error) {
    // A library may throw anything, and its message may quote the file, so only the code is returned.
    return { kind: 'unreadable', code: error instanceof Unreadable ? error.code : 'broken' };
  }
}

async function sectionsOfText(mediaType: string, bytes: Uint8Array): Promise<Section[]> {
  const text = await decodeText(bytes);
  switch (mediaType) {
    case 'text/html':
      return [{ text: textOfHtml(text), page: null, line: 1 }];
    case 'text/csv':
      return sectionsOfCsv(text) ?? [{ text, page: null, line: 1 }];
    default:
      return [{ text, page: null, line: 1 }];
  }
}

if (parentPort !== null) {
  forbidNetwork();
  const port = parentPort;
  void readFile(workerData as ParseRequest).then((outcome) => port.postMessage(outcome));
}
