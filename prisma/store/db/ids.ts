// Prefixed ids that sort by the time they were made (TypeID: a UUIDv7 in base 32 behind its noun).

import { TypeID, typeid } from 'typeid-js';

export type IdPrefix =
  | 'co'
  | 'key'
  | 'mk'
  | 'test'
  | 'agent'
  | 'room'
  | 'inv'
  | 'evt'
  | 'msg'
  | 'task'
  | 'mem'
  | 'wake'
  | 'run'
  | 'audit'
  | 'file'
  | 'psg'
  | 'held'
  | 'sig';

/** A new id such as `msg_01kb7q…`, unique without asking anyone. */
export function newId(prefix: IdPrefix): string {
  return typeid(prefix).toString();
}

/** The id of what Postgres made itself, and knows by a UUID. Always the same for the same. */
export function idOfUuid(prefix: IdPrefix, uuid: string): string {
  return TypeID.fromUUID(prefix, uuid).toString();
}

/** True when the text is an id of that kind, whether or not anything has it. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return text.startsWith(`${prefix}_`) && /^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(text.slice(prefix.length + 1));
}
