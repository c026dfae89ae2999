// Bytes to text: what is text in any encoding that a detector knows, and what is not text at all.

import { detect } from 'chardet';
import { Unreadable } from './limits';

/** Enough to tell an encoding by, and read in no time. */
const SAMPLE_BYTES = 65_536;
/** A share of characters that no text has more of: controls, or what could not be decoded. */
const NOISE_SHARE = 0.01;

/** The text in a file, its byte-order mark gone and its line ends `\n`. @throws Unreadable when it is no text */
export async function decodeText(bytes: Uint8Array): Promise<string> {
  const text = byMark(bytes) ?? utf8(bytes) ?? (await byGuess(bytes));
  if (isNoise(text)) throw new Unreadable('binary');
  return text.replace(/\r\n?/g, '\n');
}

function byMark(bytes: Uint8Array): string | null {
  const [a, b, c] = bytes;
  if (a === 0xff && b === 0xfe) return new TextDecoder('utf-16le').decode(bytes);
  if (a === 0xfe && b === 0xff) return new TextDecoder('utf-16be').decode(bytes);
  if (a === 0xef && b === 0xbb && c === 0xbf) return new TextDecoder('utf-8').decode(bytes);
  return null;
}

function utf8(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    // ASCII in UTF-16 is UTF-8 too, with a NUL beside every letter.
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
}

async function byGuess(bytes: Uint8Array): Promise<string> {
  const { fileTypeFromBuffer } = await import('file-type');
  const known = await fileTypeFromBuffer(bytes);
  if (known !== undefined && !known.mime.endsWith('xml')) throw new Unreadable('binary');
  return new TextDecoder(utf16Of(bytes) ?? knownLabel(detect(bytes.subarray(0, SAMPLE_BYTES)))).decode(bytes);
}

/** UTF-16 without a mark shows by the zeros beside every character of a Latin text. */
function utf16Of(bytes: Uint8Array): 'utf-16le' | 'utf-16be' | null {
  const sample = bytes.subarray(0, SAMPLE_BYTES);
  let even = 0;
  let odd = 0;
  sample.forEach((byte, index) => {
    if (byte !== 0) return;
    if (index % 2 === 0) even += 1;
    else odd += 1;
  });
  const many = sample.length / 8;
  const few = sample.length / 200;
  if (odd > many && even <= few) return 'utf-16le';
  if (even > many && odd <= few) return 'utf-16be';
  return null;
}

/** The encoding of what is in none that a decoder knows: as browsers read it. */
const FALLBACK = 'windows-1252';

function knownLabel(label: string | null): string {
  try {
    return new TextDecoder(label ?? FALLBACK).encoding;
  } catch {
    return FALLBACK;
  }
}

function isNoise(text: string): boolean {
  if (text.includes('\0')) return true;
  // oxlint-disable-next-line no-control-regex -- controls are what is counted
  const noise = text.match(/[\u0001-\u0008\u000e-\u001a\u001c-\u001f\u007f-\u009f\ufffd]/g)?.length ?? 0;
  return noise > text.length * NOISE_SHARE;
}
