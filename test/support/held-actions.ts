// Held actions for tests: sets rights, opens runs with held actions, decides them and reads their states.

import { rightAssignments } from '../../prisma/store/rooms/roster';
import type { DeclaredReply, HeldActionState, Rights } from '../../workflows/contract';
import { perStepKind } from '../../workflows/policy/steps';
import type { KeyClient } from './world-api';
import { activitiesOf, repliedRun, type OpenRun } from './store-runs';
import type { World } from './world';

export const ALL_GO: Rights = perStepKind(() => 'go');

export const LINE = { category: 'fact', content: 'a line', tags: [], visibility: 'shared' } as const;
export const SEND = {
  to: 'scout',
  goal: 'Check it.',
  acceptance_criteria: [],
  priority: 'normal',
  deadline: null,
} as const;

/** A reply with a text, a memory line and a task to send. */
export const FULL_REPLY: Partial<DeclaredReply> = { reply: 'Done.', memory: LINE, tasks_to_send: [SEND] };

/** Sets the rights of the world's scribe. A right that is not named is `go`. */
export async function setRights(world: World, rights: Partial<Rights>): Promise<void> {
  const all = { ...ALL_GO, ...rights };
  await world.db.$executeRaw`
    UPDATE room_agents SET ${rightAssignments(all)}
    WHERE room_id = ${world.roomId} AND agent_id = ${world.scribe.id}`;
}

/** A run of the scribe with these rights and open held actions, without Temporal. */
export async function heldRun(
  world: World,
  rights: Partial<Rights>,
  reply: Partial<DeclaredReply> = FULL_REPLY,
  options: { task?: boolean } = {},
): Promise<OpenRun> {
  await setRights(world, rights);
  const run = await repliedRun(world, reply, options);
  await activitiesOf(world, run.execution).openHeldActions({ run: run.id });
  return run;
}

/** The held actions of a run, by step key. */
export async function heldOf(world: World, runId: string) {
  const rows = await world.db.heldAction.findMany({ where: { runId }, orderBy: { id: 'asc' } });
  return new Map(rows.map((row) => [row.stepKey, row]));
}

/** The state of each held action of a run, by step key. */
export async function holdStates(world: World, runId: string): Promise<Record<string, HeldActionState>> {
  const held = await heldOf(world, runId);
  return Object.fromEntries([...held].map(([key, row]) => [key, row.state as HeldActionState]));
}

/** Sends a decision about a step of a run with the key of a person, and with the hash that the inbox shows. */
export async function decide(
  world: World,
  by: KeyClient,
  runId: string,
  step: string,
  decision: 'approve' | 'decline',
) {
  const action = (await heldOf(world, runId)).get(step);
  if (!action) throw new Error(`the run holds no ${step}`);
  return by.post(`/v1/held-actions/${action.id}/decision`, { decision, hash: action.sha256 });
}

/** Sets the expiry of a held action to the present, by Postgres' clock. */
export async function letExpire(world: World, runId: string, step: string): Promise<void> {
  await world.db.$executeRaw`
    UPDATE held_actions SET opened_at = opened_at - interval '80 hours', expires_at = clock_timestamp()
    WHERE run_id = ${runId} AND step_key = ${step}`;
}
