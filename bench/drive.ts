// Sets runs going one at a time, and waits for their end without being in the way while they are measured.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ground } from './ground';
import type { RoomSide, Side } from './sides';
import { nowMs } from './clock';

/**
 * Nobody asks about a run before it has most likely ended: a question would be load of the bench's own in the very time
 * that is measured. Asked again this often afterwards.
 */
const QUIET_MS = 120;
const ASK_AGAIN_MS = 40;
const GIVE_UP_MS = 30_000;

/** Posts one message and resolves to its id when its run is closed. @throws Error when the run ended in another way than replied */
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
    await sleep(ASK_AGAIN_MS);
  }
}

export interface BareRun {
  readonly workflowId: string;
  /** From just before its start was asked for to its third activity's return. */
  readonly ms: number;
  readonly startedAt: number;
  readonly returnedAt: number;
}

/** Runs the bare workflow once. */
export async function driveBare(ground: Ground, side: Side): Promise<BareRun> {
  const workflowId = `bare/${randomBytes(8).toString('hex')}`;
  const startedAt = nowMs();
  const handle = await ground.temporal.client.workflow.start('bareRun', {
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
 * Milliseconds from each message's commit to its reply's, by Postgres's own clock.
 *
 * `track_commit_timestamp` stamps every transaction as it commits, and a message is never updated, so its `xmin` is the
 * transaction that posted it. Measured so, waiting for the reply costs nothing: no poll, no listener, no feed. Both ends
 * are stamped by one clock at the same point, before the flush to disk. The bare runs are timed by two processes of the
 * same machine, so all of it is one clock.
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
