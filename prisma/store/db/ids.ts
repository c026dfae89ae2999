// Prefixed ids that sort by their creation time (TypeID: a noun, then a UUIDv7 in base 32).

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

/** A new id such as `msg_01kb7q…`, unique without a query. */
export function newId(prefix: IdPrefix): string {
  return typeid(prefix).toString();
}

/** The id of a row that Postgres identifies by a UUID. The same UUID gives the same id. */
export function idOfUuid(prefix: IdPrefix, uuid: string): string {
  return TypeID.fromUUID(prefix, uuid).toString();
}

/** True when the text has the form of an id of that kind. The id need not exist. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return text.startsWith(`${prefix}_`) && /^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(text.slice(prefix.length + 1));
}
