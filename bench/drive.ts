// Starts single runs and waits for their end without disturbing the measurement.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchEnvironment } from './environment';
import type { RoomSide, Side } from './sides';
import { nowMs } from './clock';

/**
 * The bench does not query a run until it has probably ended, because a query would add load to the measured time.
 * Afterwards it polls every POLL_MS.
 */
const QUIET_MS = 120;
const POLL_MS = 40;
const GIVE_UP_MS = 30_000;

/** Posts one message and resolves to its id when its run is closed. @throws Error if the run's ending is not `replied` */
export async function driveRun(side: RoomSide): Promise<string> {
  const message = await side.room.postOne();
  await sleep(QUIET_MS);
  const deadline = Date.now() + GIVE_UP_MS;
  for (;;) {
    const { rows } = await side.sql.query<{ ending: string | null }>('SELECT ending FROM runs WHERE message_id = $1', [
      message,
    ]);
    const ending = rows[0]?.ending ?? null;
    if (ending === 'replied') return message;
    if (ending !== null) throw new Error(`a run of ${side.name} ended ${ending}`);
    if (Date.now() > deadline) throw new Error(`a run of ${side.name} did not end`);
    await sleep(POLL_MS);
  }
}

export interface BareRun {
  readonly workflowId: string;
  /** From just before the start request to the return of the third activity. */
  readonly ms: number;
  readonly startedAt: number;
  readonly returnedAt: number;
}

/** Runs the bare workflow once. */
export async function driveBare(environment: BenchEnvironment, side: Side): Promise<BareRun> {
  const workflowId = `bare/${randomBytes(8).toString('hex')}`;
  const startedAt = nowMs();
  const handle = await environment.temporal.client.workflow.start('bareRun', {
    workflowId,
    taskQueue: side.taskQueue,
    args: [],
    workflowTaskTimeout: '5s',
  });
  await sleep(QUIET_MS);
  const returnedAt = (await handle.result()) as number;
  return { workflowId, ms: returnedAt - startedAt, startedAt, returnedAt };
}

/**
 * Milliseconds from each message's commit to the commit of its reply, by Postgres' clock.
 *
 * `track_commit_timestamp` records the time of each commit, and a message is never updated, so its `xmin` is the transaction
 * that posted it. This adds no load: no polling, no listener, no feed. Both times are taken by one clock before the flush to
 * disk. The bare runs are timed by two processes of the same machine, so all times have one clock.
 */
export async function wakesToReplies(side: RoomSide, messages: readonly string[]): Promise<number[]> {
  const { rows } = await side.sql.query<{ ms: number }>(
    `SELECT (extract(epoch FROM pg_xact_commit_timestamp(reply.xmin) - pg_xact_commit_timestamp(woke.xmin)) * 1000)::float8
              AS ms
     FROM messages woke JOIN messages reply ON reply.refers_to = woke.id AND reply.run_id IS NOT NULL
     WHERE woke.id = ANY($1)`,
    [messages],
  );
  if (rows.length !== messages.length) throw new Error(`${messages.length} messages have ${rows.length} replies`);
  return rows.map((row) => row.ms);
}
