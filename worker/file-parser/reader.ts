// Reads one file, in a thread of the parser's process. Nothing here may reach the network: the libraries ask for nothing,
// and what would carry it there is taken away before they see a byte.

import { parentPort, workerData } from 'node:worker_threads';
import { sectionsOfCsv } from './csv';
import { decodeText } from './decode';
import { textOfHtml } from './html';
import { Unreadable, type ParseOutcome, type ParseRequest } from './limits';
import { forbidNetwork } from './no-network';
import { cutPassages, type Section } from './passages';
import { sectionsOfPdf } from './pdf';

/** What a file says, as passages; or why it can't be read. */
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
    // A library that trips over a file throws anything; what it says may repeat what the file does.
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
