// Decodes bytes to text in any encoding that the detector knows, and refuses bytes that are no text.

import { detect } from 'chardet';
import { Unreadable } from './limits';

/** Enough bytes to detect an encoding, and few enough to take no time. */
const SAMPLE_BYTES = 65_536;
/** Text has at most this share of control characters and of characters that could not be decoded. */
const NOISE_SHARE = 0.01;

/** The text of a file, without its byte-order mark and with `\n` as line end. @throws Unreadable if it is no text */
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
    // ASCII text in UTF-16 is also valid UTF-8, with a NUL beside every letter.
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

/** Detects UTF-16 without a byte-order mark by the zero bytes beside every character of a Latin text. */
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

/** The encoding for text that no decoder knows; browsers use the same one. */
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
  // oxlint-disable-next-line no-control-regex -- it counts control characters
  const noise = text.match(/[\u0001-\u0008\u000e-\u001a\u001c-\u001f\u007f-\u009f\ufffd]/g)?.length ?? 0;
  return noise > text.length * NOISE_SHARE;
}
