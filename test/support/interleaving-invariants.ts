// The invariants after every program, in any order of its commands: each claim, effect, request and ending exists once and
// never changes.

import type { Database } from '../../prisma/store/db/database';
import type { DeclaredReply } from '../../workflows/contract';
import { declaredKinds, planSteps } from '../../workflows/policy/steps';
import { ALLOWANCE, type ProgramRoom } from './interleaving-rooms';
import type { Trace } from './interleavings';

/** The facts that never change: a claim, and everything about a closed run. */
interface Final {
  readonly claim: string;
  readonly closed: string | null;
}

/** Watches one room while its program runs. Each check returns the final facts that have changed. */
export class Watch {
  private readonly seen = new Map<string, Final>();
  private readonly db: Database;
  private readonly roomId: string;

  constructor(db: Database, roomId: string) {
    this.db = db;
    this.roomId = roomId;
  }

  async check(): Promise<string[]> {
    const rows = await this.db.$queryRaw<(Final & { wake: string })[]>`
      SELECT l.agent_id || ' ' || l.message_id AS wake,
             concat_ws(' ', l.run_id, l.workflow_id, coalesce(l.temporal_run_id, 'nobody'), l.claimed_at) AS claim,
             CASE WHEN r.state = 'closed' THEN concat_ws(' ', r.ending, r.code, r.closed_at, r.cancelled_by,
               r.reply_sha256, r.context::text,
               (SELECT string_agg(concat_ws(':', step_key, s.state, s.code, s.effect_id, s.at), ',' ORDER BY position)
                FROM run_steps s WHERE s.run_id = r.id),
               (SELECT string_agg(concat_ws(':', number, outcome, q.code, q.claimed_at, ended_at), ',' ORDER BY number)
                FROM model_requests q WHERE q.run_id = r.id),
               (SELECT string_agg(id, ',' ORDER BY id) FROM messages WHERE run_id = r.id),
               (SELECT string_agg(id, ',' ORDER BY id) FROM tasks WHERE run_id = r.id),
               (SELECT string_agg(id, ',' ORDER BY id) FROM memory_entries WHERE run_id = r.id),
               (SELECT count(*) FROM room_events WHERE subject_id = r.id)) END AS closed
      FROM runs r JOIN agent_run_locks l ON l.run_id = r.id WHERE r.room_id = ${this.roomId}`;
    const found: string[] = [];
    const now = new Map(rows.map((row) => [row.wake, row]));
    for (const [wake, before] of this.seen) {
      const after = now.get(wake);
      if (after?.claim !== before.claim) found.push(`the claim of ${wake} was ${before.claim}, is ${after?.claim}`);
      if (before.closed !== null && after?.closed !== before.closed) {
        found.push(`the closed run of ${wake} was [${before.closed}], is [${after?.closed}]`);
      }
    }
    for (const [wake, row] of now) this.seen.set(wake, row);
    return found;
  }
}

/** Every violated invariant of this room, as text. Empty if there is none. */
export async function violationsOf(db: Database, programRoom: ProgramRoom, trace: Trace): Promise<string[]> {
  const { roomId } = programRoom;
  const found = [...trace.unexpected];
  const must = (holds: boolean, what: string): void => {
    if (!holds) found.push(what);
  };
  const room = await db.room.findUniqueOrThrow({ where: { id: roomId } });
  const runs = await db.run.findMany({
    where: { roomId },
    include: {
      steps: { orderBy: { position: 'asc' } },
      requests: { orderBy: { number: 'asc' } },
      claim: true,
    },
  });
  const events = await db.roomEvent.findMany({ where: { roomId }, orderBy: { seq: 'asc' } });
  const messages = await db.message.findMany({ where: { roomId, runId: { not: null } } });
  const tasks = await db.task.findMany({ where: { roomId } });
  const memory = await db.memoryEntry.findMany({ where: { roomId } });
  const wakes = await db.wake.findMany({ where: { roomId } });

  // Events are numbered without gaps, in the order of their times.
  must(
    events.every((event, index) => Number(event.seq) === index + 1),
    'the feed has a gap',
  );
  must(Number(room.lastSeq) === events.length, 'the newest number is not the last event');
  const times = events.map((event) => event.at.getTime());
  must(
    times.every((at, index) => index === 0 || at >= (times[index - 1] ?? 0)),
    'the times of the feed are not in order',
  );

  // Each wake has at most one claim, and each delivery is counted once.
  for (const wake of wakes) {
    const ofWake = runs.filter((run) => run.wakeId === wake.id);
    must(
      ofWake.length === (wake.state === 'claimed' ? 1 : 0),
      `${wake.id} is ${wake.state} with ${ofWake.length} runs`,
    );
  }
  const paid = wakes.filter((wake) => wake.deliveredAt !== null).length;
  must(room.runAllowance === ALLOWANCE - paid, `${paid} deliveries left ${room.runAllowance} of the allowance`);
  const suppressed = wakes.filter((wake) => wake.state === 'suppressed').map((wake) => wake.id);
  const shown = events.filter((event) => event.type === 'wake_suppressed').map((event) => event.subjectId);
  must(sameBag(suppressed, shown), 'suppressed wakes are not those that the feed shows');

  // The results that callers received.
  must(new Set(trace.sends).size === trace.sends.length, `a request was given out twice: ${trace.sends.join(', ')}`);
  for (const [wake, granted] of trace.granted) {
    const owner = runs.find((run) => run.id === trace.runs.get(wake))?.claim.temporalRunId;
    must(granted.size === 1 && granted.has(owner ?? ''), `wake ${wake} was granted to ${[...granted].join(', ')}`);
  }
  for (const run of runs) {
    const counted = trace.fenced.get(run.id) ?? 0;
    must(run.fencedCount === counted, `${run.id} fenced ${counted} executions and counts ${run.fencedCount}`);
  }

  const known = new Set(runs.map((run) => run.id));
  const written = [...messages, ...tasks, ...memory].map((row) => row.runId);
  must(
    written.every((runId) => runId === null || known.has(runId)),
    'a row belongs to no run',
  );
  for (const run of runs) {
    const violation = (what: string): string => `${run.id} (${run.ending ?? 'open'}): ${what}`;
    must(run.claim.temporalRunId === run.temporalRunId, violation('the claim is held by another execution'));

    // Requests are numbered from 1 to at most 3, and a caller asked for each.
    const numbers = run.requests.map((request) => request.number);
    must(
      numbers.length <= 3 && numbers.every((number, index) => number === index + 1),
      violation(`requests ${numbers.join()}`),
    );
    const sent = trace.sends.filter((send) => send.startsWith(`${run.id} `)).length;
    must(sent === numbers.length, violation(`${sent} requests were given out, ${numbers.length} are recorded`));

    // The ledger equals the room: each effect has one step, and each step has one effect.
    const effects = effectsOf(run.id);
    const done = run.steps.filter((step) => step.state === 'done').map((step) => `${step.kind} ${step.effectId}`);
    must(sameBag(effects, done), violation(`the room has [${effects.join()}], the ledger has [${done.join()}]`));
    must(
      run.steps.every((step) => (step.state === 'done') === (step.effectId !== null)),
      violation('a step has no effect'),
    );
    const declared = run.reply === null ? [] : planSteps(declaredKinds(run.reply as unknown as DeclaredReply));
    const keys = declared.map((step) => step.key);
    must(
      run.steps.every((step) => keys.includes(step.stepKey)),
      violation('a step was not declared'),
    );

    const endings = events.filter((event) => event.subjectId === run.id && event.type === 'run_ended');
    if (run.state === 'open') {
      must(endings.length === 0, violation('is shown as ended'));
      continue;
    }
    // One ending event, after everything that the run wrote; and every declared step has a state.
    must(endings.length === 1, violation(`${endings.length} endings`));
    const posted = run.steps.find((step) => step.kind === 'reply')?.effectId ?? null;
    const endingData = endings[0]?.data as { ending?: string; posted?: string | null } | undefined;
    must(
      endingData?.ending === run.ending && endingData?.posted === posted,
      violation('the ending event differs from the run'),
    );
    const last = Math.max(0, ...messages.filter((each) => each.runId === run.id).map((each) => Number(each.seq)));
    must(last < Number(endings[0]?.seq), violation('a message follows its ending'));
    const lines = new Set(memory.filter((line) => line.runId === run.id).map((line) => line.id));
    const late = events.filter((event) => lines.has(event.subjectId) && event.seq > (endings[0]?.seq ?? 0n));
    must(late.length === 0, violation('a memory line follows its ending'));
    must(
      sameBag(
        run.steps.map((step) => step.stepKey),
        keys,
      ),
      violation(`steps ${run.steps.map((step) => step.stepKey).join()}`),
    );
    must(
      run.requests.every((request) => request.outcome !== 'in_flight'),
      violation('a request is in flight'),
    );
    const closedAt = run.closedAt?.getTime() ?? 0;
    const claimed = run.requests.map((request) => request.claimedAt.getTime());
    must(
      claimed.every((at) => at <= closedAt),
      violation('a request was claimed after it'),
    );
    must(run.context === null, violation('its context is still there'));
  }
  return found;

  function effectsOf(runId: string): string[] {
    const own = messages.filter((message) => message.runId === runId);
    return [
      ...own.filter(({ kind }) => kind === 'text').map(({ id }) => `reply ${id}`),
      ...own.filter(({ kind }) => kind === 'response_card').map(({ taskId }) => `task_update ${taskId}`),
      ...memory.filter((line) => line.runId === runId).map(({ id }) => `memory ${id}`),
      ...tasks.filter((task) => task.runId === runId).map(({ id }) => `task_send ${id}`),
    ];
  }
}

function sameBag(one: readonly string[], other: readonly string[]): boolean {
  return JSON.stringify([...one].sort()) === JSON.stringify([...other].sort());
}
