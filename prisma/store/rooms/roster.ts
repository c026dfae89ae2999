// The roster of a room: its agents, their rights, and the lock under which a company writes to the room.

import { STEP_KINDS, type Right, type Rights, type StepKind, type SuppressedReason } from '../../../workflows/contract';
import { foldName } from '../../../workflows/policy/mentions';
import { perStepKind, STEP_RULES } from '../../../workflows/policy/steps';
import { Prisma } from '../../generated/client';
import { IS_USED_UP } from '../eligibility/budgets';
import { Conflict, NotFound } from '../db/errors';
import { KEY_REJECTED, suppressionReason } from '../eligibility/gates';
import { declareLock, forShare } from '../db/lock-order';
import type { SqlTx, Tx } from '../db/transaction';

/** A room and the caller's membership in it, which is locked: leaving the room waits for the write. One per transaction. */
export interface RoomForWrite {
  readonly id: string;
  readonly hopLimit: number;
  readonly runAllowance: number;
  readonly paused: boolean;
  readonly closed: boolean;
  /** The roster as `rosterOf` read it in this transaction; null before the first read. */
  readonly roster: { read: Promise<readonly RosterAgent[]> | null };
}

/** An agent on a roster, with the facts that its gates need. */
export interface RosterAgent {
  readonly agentId: string;
  readonly slug: string;
  readonly name: string;
  readonly companyId: string;
  readonly alwaysOn: boolean;
  readonly agentPaused: boolean;
  readonly companySuspended: boolean;
  readonly keyRejected: boolean;
  readonly budgetUsedUp: boolean;
}

/** The presets of rights. `careful` is the default. */
export const PRESETS: Readonly<Record<'supervised' | 'careful' | 'autonomous', Rights>> = {
  supervised: perStepKind(() => 'hold'),
  careful: perStepKind((kind) => STEP_RULES[kind].carefulRight),
  autonomous: perStepKind(() => 'go'),
};

/**
 * Locks a company's membership of a room for sharing and returns the room.
 * @throws NotFound if the company is not a member, as for an unknown room; Conflict if the room is closed
 */
export async function lockRoomForWrite(tx: SqlTx, roomId: string, companyId: string): Promise<RoomForWrite> {
  const members = await tx.$queryRaw<unknown[]>`
    SELECT 1 AS locked FROM room_members
    WHERE room_id = ${roomId} AND company_id = ${companyId} AND left_at IS NULL ${forShare(tx, 'membership')}`;
  // A second statement: a single one that waited for the lock would read the room as it was before the wait.
  const [room] = await tx.$queryRaw<Omit<RoomForWrite, 'roster'>[]>`
    SELECT id, hop_limit AS "hopLimit", run_allowance AS "runAllowance", paused_at IS NOT NULL AS paused,
           closed_at IS NOT NULL AS closed
    FROM rooms WHERE id = ${roomId}`;
  if (members.length === 0 || !room) throw new NotFound('no such room');
  if (room.closed) throw new Conflict('the room is closed');
  return { ...room, roster: { read: null } };
}

/** The roster of a room that this transaction writes to. The first call reads it; later calls return the same agents. */
export function rosterOf(tx: SqlTx, room: RoomForWrite): Promise<readonly RosterAgent[]> {
  room.roster.read ??= loadRoster(tx, room.id);
  return room.roster.read;
}

/** The agents on a room's roster whose companies are members. */
export async function loadRoster(reader: SqlTx, roomId: string): Promise<RosterAgent[]> {
  return reader.$queryRaw<RosterAgent[]>`
    SELECT a.id AS "agentId", a.slug, a.name, a.company_id AS "companyId", a.always_on AS "alwaysOn",
           a.paused_at IS NOT NULL AS "agentPaused", c.suspended_at IS NOT NULL AS "companySuspended",
           ${KEY_REJECTED} AS "keyRejected", ${IS_USED_UP} AS "budgetUsedUp"
    FROM room_agents ra
    JOIN agents a ON a.id = ra.agent_id
    JOIN companies c ON c.id = a.company_id
    JOIN room_members m ON m.room_id = ra.room_id AND m.company_id = a.company_id AND m.left_at IS NULL
    LEFT JOIN model_keys k ON k.id = a.model_key_id
    WHERE ra.room_id = ${roomId} AND ra.removed_at IS NULL
    ORDER BY ra.added_at, a.id`;
}

/** Why a wake of this agent would be suppressed from the start, or null. */
export function suppressionReasonOf(room: RoomForWrite, agent: RosterAgent, hop: number): SuppressedReason | null {
  return suppressionReason({
    roomClosed: room.closed,
    roomPaused: room.paused,
    onRoster: true,
    isMember: true,
    companySuspended: agent.companySuspended,
    agentPaused: agent.agentPaused,
    keyRejected: agent.keyRejected,
    allowance: room.runAllowance,
    budgetUsedUp: agent.budgetUsedUp,
    hop,
    hopLimit: room.hopLimit,
  });
}

type PascalCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Capitalize<Head>}${PascalCase<Tail>}`
  : Capitalize<S>;
type RightField = `right${PascalCase<StepKind>}`;
type RightFields = Readonly<Record<RightField, string>>;

/** The field of Prisma's roster row that holds the right to this kind of step. Its column is `right_<kind>`. */
function rightField(kind: StepKind): RightField {
  return `right${kind.replaceAll(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())}` as RightField;
}

/** The rights in a roster row `ra`, as one JSON object. */
export const ROSTER_RIGHTS = Prisma.raw(
  `jsonb_build_object(${STEP_KINDS.map((kind) => `'${kind}', ra.right_${kind}`).join(', ')})`,
);

/** Assignments to the right columns of `room_agents`. A right that is not given stays unchanged. */
export function rightAssignments(rights: Partial<Rights>): Prisma.Sql {
  return Prisma.join(
    STEP_KINDS.map((kind) => {
      const column = Prisma.raw(`right_${kind}`);
      return Prisma.sql`${column} = coalesce(${rights[kind] ?? null}, ${column})`;
    }),
  );
}

/** The rights in a roster row. */
export function rightsOf(row: RightFields): Rights {
  return perStepKind((kind) => row[rightField(kind)] as Right);
}

function rightFieldsOf(rights: Rights): RightFields {
  return Object.fromEntries(STEP_KINDS.map((kind) => [rightField(kind), rights[kind]])) as RightFields;
}

/**
 * Adds an agent to a roster with the given rights, also after it was removed.
 * @throws Conflict if its slug or name, folded, is taken on this roster
 */
export async function addToRoster(
  tx: Tx,
  room: { id: string },
  agent: { id: string; slug: string; name: string },
  rights: Rights,
): Promise<void> {
  const columns = { ...rightFieldsOf(rights), removedAt: null };
  declareLock(tx, 'roster');
  await tx.roomAgent.upsert({
    where: { roomId_agentId: { roomId: room.id, agentId: agent.id } },
    create: { roomId: room.id, agentId: agent.id, ...columns },
    update: columns,
  });
  const folds = [...new Set([foldName(agent.slug), foldName(agent.name)])];
  const taken = await tx.rosterName.createMany({
    data: folds.map((nameFold) => ({ roomId: room.id, nameFold, agentId: agent.id })),
    skipDuplicates: true,
  });
  if (taken.count === folds.length) return;
  const holders = await tx.rosterName.findMany({ where: { roomId: room.id, nameFold: { in: folds } } });
  if (holders.some((holder) => holder.agentId !== agent.id)) {
    throw new Conflict('another agent on this roster has the same or a similar slug or name');
  }
}

/**
 * Locks an agent's roster row for sharing, so that a removal or a change of rights waits for the write. Returns the agent's
 * rights, or null if the agent is not on the roster.
 */
export async function lockRights(tx: SqlTx, roomId: string, agentId: string): Promise<Rights | null> {
  const [row] = await tx.$queryRaw<{ rights: Rights }[]>`
    SELECT ${ROSTER_RIGHTS} AS rights
    FROM room_agents ra WHERE ra.room_id = ${roomId} AND ra.agent_id = ${agentId} AND ra.removed_at IS NULL
    ${forShare(tx, 'roster')}`;
  return row?.rights ?? null;
}

/**
 * Reserves an agent's new name on all its rosters and releases the old name.
 * @throws Conflict if the name, folded, is taken on one of the rosters
 */
export async function renameOnRosters(tx: Tx, agent: { id: string; slug: string; name: string }): Promise<void> {
  const entries = await tx.roomAgent.findMany({
    where: { agentId: agent.id, removedAt: null },
    select: { roomId: true },
    orderBy: { roomId: 'asc' },
  });
  const rooms = entries.map((entry) => entry.roomId);
  const folds = [...new Set([foldName(agent.slug), foldName(agent.name)])].sort();
  await tx.rosterName.deleteMany({
    where: { agentId: agent.id, roomId: { in: rooms }, nameFold: { notIn: folds } },
  });
  await tx.rosterName.createMany({
    data: rooms.flatMap((roomId) => folds.map((nameFold) => ({ roomId, nameFold, agentId: agent.id }))),
    skipDuplicates: true,
  });
  const taken = await tx.rosterName.count({
    where: { roomId: { in: rooms }, nameFold: { in: folds }, agentId: { not: agent.id } },
  });
  if (taken > 0) throw new Conflict('another agent in one of its rooms has the same or a similar name');
}
