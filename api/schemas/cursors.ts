// Cursors: opaque to clients. Each holds the key after which a page starts; no row with that key needs to exist.

import { isId, type IdPrefix } from '../../prisma/store/db/ids';
import type { RankedKey } from '../../prisma/store/db/text-search';

/** The kind of key that orders a list: ids of one kind, or event numbers of a room. */
export type CursorKey = IdPrefix | 'seq';

/** 2^63 - 1, the last number that Postgres's bigint holds. */
const SEQ_MAX = 9_223_372_036_854_775_807n;

export function encodeCursor(key: string): string {
  return Buffer.from(key, 'utf8').toString('base64url');
}

/** The key in a cursor, or null when the text is not a cursor of this kind of list. */
export function decodeCursor(cursor: string, kind: CursorKey): string | null {
  const key = Buffer.from(cursor, 'base64url').toString('utf8');
  if (encodeCursor(key) !== cursor) return null;
  if (kind === 'seq') return isSeq(key) ? key : null;
  return isId(kind, key) ? key : null;
}

export function encodeRankedCursor({ rank, id }: RankedKey): string {
  return encodeCursor(`${rank}~${id}`);
}

/** The rank and id in a search cursor, or null when the text is not a cursor of this kind of search. */
export function decodeRankedCursor(cursor: string, kind: IdPrefix): RankedKey | null {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  const [rank = '', id = ''] = text.split('~');
  const key = { rank: Number(rank), id };
  if (!Number.isFinite(key.rank) || !isId(kind, id) || encodeRankedCursor(key) !== cursor) return null;
  return key;
}

/** True for a number that an event of a room can have, and for 0, which is before the first event. */
export function isSeq(text: string): boolean {
  return /^(0|[1-9]\d{0,18})$/.test(text) && BigInt(text) <= SEQ_MAX;
}
