// Reads how a run ended after a fault, and lists every broken guarantee. A broken guarantee is a result, not an error.

import type { CutMessage } from './crash-points';
import type { CrashRun } from './crash-runs';
import { expectLedgerEqualsRoom } from './ledger';
import type { ScriptedModel } from './scripted-model-server';
import type { World } from './world';
import { MODEL_REQUESTS_LIMIT, type Ending } from '../../workflows/contract';

export interface CrashOutcome {
  readonly ending: string | null;
  readonly code: string | null;
  readonly steps: readonly string[];
  /** The numbers of rows that its agent wrote into the room. */
  readonly effects: {
    readonly replies: number;
    readonly memory: number;
    readonly responses: number;
    readonly tasks: number;
  };
  readonly requests: {
    /** The recorded outcome of each request. */
    readonly ledger: readonly string[];
    /** Requests that reached the provider. */
    readonly sent: number;
  };
  /** From the fault to the ending by Postgres' clock; null if the run has not ended. */
  readonly endedAfterMs: number | null;
  readonly fenced: number;
  /** The COMMIT at which the connection was cut. */
  readonly cut: CutMessage | null;
  /** The broken guarantees; empty if there is none. */
  readonly why: readonly string[];
}

/** The allowed endings. With `resume`, every step is done unless the provider refused; with `stop`, a run may end early. */
const ENDINGS: Record<CrashRun['onCrash'], readonly Ending[]> = {
  resume: ['replied', 'refused'],
  stop: ['replied', 'refused', 'partial', 'failed'],
};

/** Reads one run and its room. */
export async function readOutcome(
  world: World,
  model: ScriptedModel,
  run: CrashRun,
  faultAt: number,
): Promise<CrashOutcome> {
  const { db } = world;
  const { id: roomId, agent } = run.room;
  const why: string[] = [];
  const claims = await db.agentRunLock.count({ where: { agentId: agent.id } });
  if (claims !== 1) why.push(`${claims} claims`);
  const rows = await db.run.findMany({
    where: { agentId: agent.id },
    include: { steps: { orderBy: { position: 'asc' } }, requests: { orderBy: { number: 'asc' } } },
  });
  if (rows.length > 1) why.push(`${rows.length} runs`);
  const row = rows[0];
  const byAgent = { roomId, authorId: agent.id };
  const effects = {
    replies: await db.message.count({ where: { ...byAgent, kind: 'text' } }),
    memory: await db.memoryEntry.count({ where: byAgent }),
    responses: await db.message.count({ where: { ...byAgent, kind: 'response_card' } }),
    tasks: await db.message.count({ where: { ...byAgent, kind: 'task_card' } }),
  };
  for (const [kind, count] of Object.entries(effects)) if (count > 1) why.push(`${count} ${kind}`);
  const sent = model.requests.filter((request) => request.textOf('user').includes(run.marker)).length;
  const ledger = (row?.requests ?? []).map((request) => request.outcome);
  if (ledger.length > MODEL_REQUESTS_LIMIT) why.push(`${ledger.length} requests in the ledger`);
  if (sent > ledger.length) why.push(`${sent} requests sent, ${ledger.length} in the ledger`);
  if (ledger.filter((outcome) => outcome === 'answered').length > 1) why.push('answered twice');

  if (row?.closedAt == null) {
    why.push('not ended in time');
  } else {
    if (!ENDINGS[run.onCrash].some((ending) => ending === row.ending)) why.push(`ended ${row.ending} (${row.code})`);
    const undone = row.steps.filter((step) => step.state !== 'done');
    if (run.onCrash === 'resume' && undone.length > 0) why.push(`${undone.length} steps not done under resume`);
    await expectLedgerEqualsRoom(db, row.id).catch((error: Error) => why.push(oneLine(error)));
  }
  return {
    ending: row?.ending ?? null,
    code: row?.code ?? null,
    steps: (row?.steps ?? []).map((step) => step.state),
    effects,
    requests: { ledger, sent },
    endedAfterMs: row?.closedAt == null ? null : Math.max(0, row.closedAt.getTime() - faultAt),
    fenced: row?.fencedCount ?? 0,
    cut: null,
    why,
  };
}

function oneLine(error: Error): string {
  return error.message.replaceAll(/\s+/g, ' ').slice(0, 500);
}

/** Everything that each run can change, as text for a comparison. Leaves out the count of fenced executions. */
export async function readRooms(world: World, runs: readonly CrashRun[]): Promise<Map<CrashRun, string>> {
  const { db } = world;
  const read = new Map<CrashRun, string>();
  for (const run of runs) {
    const where = { roomId: run.room.id };
    const ofRun = { run: where };
    const everything = {
      runs: await db.run.findMany({ where, orderBy: { id: 'asc' }, omit: { fencedCount: true, dueAt: true } }),
      claims: await db.agentRunLock.findMany({ where: { agentId: run.room.agent.id } }),
      steps: await db.runStep.findMany({ where: ofRun, orderBy: [{ runId: 'asc' }, { position: 'asc' }] }),
      requests: await db.modelRequest.findMany({ where: ofRun, orderBy: [{ runId: 'asc' }, { number: 'asc' }] }),
      events: await db.roomEvent.findMany({ where, orderBy: { seq: 'asc' } }),
      messages: await db.message.findMany({ where, orderBy: { id: 'asc' } }),
      memory: await db.memoryEntry.findMany({ where, orderBy: { id: 'asc' } }),
      tasks: await db.task.findMany({ where, orderBy: { id: 'asc' } }),
    };
    read.set(
      run,
      JSON.stringify(everything, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)),
    );
  }
  return read;
}
