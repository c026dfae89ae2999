// Reads the changes of a company's held actions for its feed. A trigger writes each change in the transaction that makes it,
// and the next read of the feed numbers it.
//
//   written ──commit──▶ visible, without a number ──next read of the feed──▶ numbered, never changed

import { Prisma } from '../../../generated/client';
import type { HeldActionState } from '../../../../workflows/contract';
import { heldActionResource, WITH_RUN, type ShownAction } from './read';
import { idOfUuid } from '../../db/ids';
import { IS_LIVE } from '../../access/keys';
import type { Reader } from '../../db/transaction';
import type { Viewer } from '../../access/viewer';

/** The class of the advisory locks under which a company's changes are numbered, apart from those of wakes and budgets. */
const NUMBERING_LOCK = 7_306_112;

/**
 * The most changes that one statement numbers, in a few milliseconds. A company that never read its feed may have any number
 * of changes, and statements have a time limit.
 */
const NUMBERED_AT_ONCE = 1_000;

export interface ShownChange {
  /** The position in the company's feed. */
  readonly number: bigint;
  readonly at: Date;
  readonly room: string;
  readonly resource: Record<string, unknown>;
}

export interface HeldChangesAfter {
  readonly changes: readonly ShownChange[];
  /** The company's newest number, read by the same statement as the changes. */
  readonly newest: bigint;
}

interface Change {
  readonly number: bigint;
  readonly eventId: string;
  readonly heldActionId: string;
  readonly state: HeldActionState;
  readonly at: Date;
}

interface Seen {
  readonly changes: readonly Change[];
  readonly newest: bigint;
  /** Some committed changes have no number yet. */
  readonly unnumbered: boolean;
}

/**
 * Up to `limit` changes after a number, in order: of all held actions of the company or, for an agent's key, of that agent.
 * Null if the key is revoked or the company is suspended.
 *
 * Every change that was committed before the call is returned by this call or a later one. Changes without a number are
 * numbered first, under a lock that a transaction would hold too long: never call this in a transaction. Without such
 * changes it is one statement that only reads.
 */
export async function readHeldChangesAfter(
  reader: Reader,
  viewer: Viewer & { readonly keyId: string },
  after: bigint,
  limit: number,
): Promise<HeldChangesAfter | null> {
  let seen = await readNumbered(reader, viewer, after, limit);
  for (let mayHaveMore = true; mayHaveMore && seen?.unnumbered === true && seen.changes.length < limit;) {
    // Changes committed meanwhile are left to the next read: a reader does not try to catch up with its writers.
    mayHaveMore = (await numberChanges(reader, viewer.companyId)) === NUMBERED_AT_ONCE;
    seen = await readNumbered(reader, viewer, after, limit);
  }
  return seen && { newest: seen.newest, changes: await showChanges(reader, seen.changes) };
}

// The statement that reads also checks the key, so no change is read after the access ended.
async function readNumbered(
  reader: Reader,
  { companyId, agentId, keyId }: Viewer & { readonly keyId: string },
  after: bigint,
  limit: number,
): Promise<Seen | null> {
  const ofAgent = agentId === null ? Prisma.empty : Prisma.sql`AND c.agent_id = ${agentId}`;
  const rows = await reader.$queryRaw<(Omit<Change, 'number'> & Omit<Seen, 'changes'> & { number: bigint | null })[]>`
    SELECT seen.newest, seen.unnumbered, c.number, c.event_id AS "eventId", c.held_action_id AS "heldActionId", c.state, c.at
    FROM (
      SELECT (SELECT coalesce(max(number), 0) FROM held_action_changes WHERE company_id = ${companyId}) AS newest,
             EXISTS (SELECT FROM held_action_changes WHERE company_id = ${companyId} AND number IS NULL) AS unnumbered
      FROM api_keys k JOIN companies o ON o.id = k.company_id AND o.suspended_at IS NULL
      WHERE k.id = ${keyId} AND o.id = ${companyId} AND ${IS_LIVE}
    ) seen
    LEFT JOIN LATERAL (
      SELECT * FROM held_action_changes c
      WHERE c.company_id = ${companyId} AND c.number > ${after} ${ofAgent} ORDER BY c.number LIMIT ${limit}
    ) c ON true
    ORDER BY c.number`;
  const [first] = rows;
  if (!first) return null;
  const changes = rows.flatMap(({ number, ...row }) => (number === null ? [] : [{ ...row, number }]));
  return { newest: first.newest, unnumbered: first.unnumbered, changes };
}

/** Numbers a company's committed changes, oldest first and up to a bound, and returns how many it numbered. */
export async function numberChanges(reader: Pick<Reader, '$queryRaw'>, companyId: string): Promise<number> {
  const [row] = await reader.$queryRaw<{ numbered: number }[]>`
    SELECT number_held_action_changes(${NUMBERING_LOCK}::int, ${companyId}, ${NUMBERED_AT_ONCE}::int) AS numbered`;
  return row?.numbered ?? 0;
}

// The action is read from its own row, so that a redaction applies to it.
async function showChanges(reader: Reader, changes: readonly Change[]): Promise<ShownChange[]> {
  if (changes.length === 0) return [];
  const ids = [...new Set(changes.map((change) => change.heldActionId))];
  const actions = await reader.heldAction.findMany({ where: { id: { in: ids } }, include: WITH_RUN });
  const byId = new Map(actions.map((action) => [action.id, action]));
  return changes.flatMap((change) => {
    const action = byId.get(change.heldActionId);
    return action ? [showChange(change, action)] : [];
  });
}

function showChange({ number, eventId, state, at }: Change, action: ShownAction): ShownChange {
  // The action at the time of the change: without a decision if it was `held`. A decision never changes.
  const undecided = { decision: null, decidedBy: null, decidedByName: null, decidedAt: null };
  const then = { ...action, state, changedAt: at, ...(state === 'held' && undecided) };
  return {
    number,
    at,
    room: action.roomId,
    resource: {
      id: idOfUuid('evt', eventId),
      seq: Number(number),
      type: 'held_action',
      at: at.toISOString(),
      room: action.roomId,
      company: action.companyId,
      author: null,
      data: heldActionResource(then),
    },
  };
}
