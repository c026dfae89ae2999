// The position of a client in its company's feed, as text: the cursor of a page and the id of each event of a stream.

import { isId } from '../../prisma/store/db/ids';
import { isSeq } from './cursors';

/** The partition of a company's feed that holds the changes of its held actions. Every other partition is a room. */
export const HELD = 'held';

/** The number of the last event that a client has, by partition: the id of a room, or `HELD`. */
export type FeedPosition = ReadonlyMap<string, bigint>;

const ROOM = 'room_';
const ID_LENGTH = 26;

/** Writes room ids without their prefix, because the stream repeats the whole cursor with every event. */
export function encodeFeedPosition(position: FeedPosition): string {
  const parts = [...position].map(
    ([partition, number]) => `${partition === HELD ? HELD : partition.slice(ROOM.length)}${number}`,
  );
  return Buffer.from(`1:${parts.join(',')}`, 'utf8').toString('base64url');
}

/** The position in a cursor, or null when the text is not a cursor of a company's feed. */
export function decodeFeedPosition(cursor: string): FeedPosition | null {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  if (!text.startsWith('1:') || Buffer.from(text, 'utf8').toString('base64url') !== cursor) return null;
  const position = new Map<string, bigint>();
  for (const part of text === '1:' ? [] : text.slice(2).split(',')) {
    const isHeld = part.startsWith(HELD);
    const partition = isHeld ? HELD : ROOM + part.slice(0, ID_LENGTH);
    const number = part.slice(isHeld ? HELD.length : ID_LENGTH);
    if (!(isHeld || isId('room', partition)) || !isSeq(number)) return null;
    position.set(partition, BigInt(number));
  }
  return position;
}

/** True when a client names a number that a partition has not reached: a position that this feed never had. */
export function isAhead(position: FeedPosition, newest: FeedPosition): boolean {
  return [...position].some(([partition, number]) => number > (newest.get(partition) ?? number));
}
