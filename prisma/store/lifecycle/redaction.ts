// Redaction: erases a subject's content from every table. Its id, seq, author, time and claims stay.
//
// The transaction first locks every membership of the room exclusively. No run can then read the room or act in it, so no
// run copies the content from an older snapshot.

import type { DeclaredReply, StepKind } from '../../../workflows/contract';
import { declaredKinds, planSteps } from '../../../workflows/policy/steps';
import { Prisma } from '../../generated/client';
import { RoomDraft, type Author } from '../rooms/room-draft';
import { NotAllowed, NotFound } from '../db/errors';
import { eraseFile } from '../files/files';
import { isId } from '../db/ids';
import { loadLockedRun } from '../runs/locked-run';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { Tx } from '../db/transaction';

export interface Redaction {
  readonly subject: string;
  readonly kind: 'message' | 'task' | 'response' | 'memory' | 'file';
  readonly redactedAt: Date;
  /** True if the subject was redacted before. */
  readonly before: boolean;
}

interface Target extends Omit<Redaction, 'redactedAt' | 'before'> {
  readonly companyId: string;
  readonly redactedAt: Date | null;
  /** The task, for a task and a response. */
  readonly taskId: string | null;
  /** The run that wrote the subject. */
  readonly runId: string | null;
}

/**
 * Erases a message, task, task response, memory entry or file of the author's own company. A card and its task or response
 * are redacted together. A repeated redaction returns the same answer and writes nothing.
 * @throws NotFound if the author cannot see the room or the subject; NotAllowed if another company wrote the subject
 */
export async function redact(tx: Tx, roomId: string, author: Author, subjectId: string): Promise<Redaction> {
  const members = await tx.$queryRaw<{ companyId: string; leftAt: Date | null }[]>`
    SELECT company_id AS "companyId", left_at AS "leftAt" FROM room_members WHERE room_id = ${roomId}
    ORDER BY company_id ${forNoKeyUpdate(tx, 'membership')}`;
  if (!members.some((member) => member.companyId === author.companyId && member.leftAt === null)) {
    throw new NotFound('no such room');
  }
  const target = await findTarget(tx, roomId, subjectId);
  if (target.companyId !== author.companyId)
    throw new NotAllowed('only the company that wrote the content may redact it');
  const { subject, kind } = target;
  if (target.redactedAt !== null) return { subject, kind, redactedAt: target.redactedAt, before: true };
  const [{ at }] = (await tx.$queryRaw<{ at: Date }[]>`SELECT clock_ms() AS at`) as [{ at: Date }];
  await eraseFromRuns(tx, roomId, target);
  await erase(tx, target, at);
  const draft = new RoomDraft(roomId);
  draft.addEvent({ type: 'redacted', author, subjectId: subject, data: { subject, kind } });
  await draft.append(tx);
  return { subject, kind, redactedAt: at, before: false };
}

async function findTarget(tx: Tx, roomId: string, id: string): Promise<Target> {
  if (isId('mem', id)) {
    const entry = await tx.memoryEntry.findUnique({ where: { id, roomId } });
    if (!entry) throw new NotFound('no such message, task, memory entry or file in this room');
    const { companyId, redactedAt, runId } = entry;
    return { subject: id, kind: 'memory', companyId, redactedAt, taskId: null, runId };
  }
  if (isId('file', id)) {
    const file = await tx.file.findUnique({ where: { id, roomId } });
    if (!file) throw new NotFound('no such message, task, memory entry or file in this room');
    const { companyId, redactedAt } = file;
    return { subject: id, kind: 'file', companyId, redactedAt, taskId: null, runId: null };
  }
  const message = isId('msg', id) ? await tx.message.findUnique({ where: { id, roomId } }) : null;
  if (message?.kind === 'text') {
    const { companyId, redactedAt, runId } = message;
    return { subject: id, kind: 'message', companyId, redactedAt, taskId: null, runId };
  }
  if (message?.kind === 'response_card') {
    const { companyId, redactedAt, taskId, runId } = message;
    return { subject: id, kind: 'response', companyId, redactedAt, taskId, runId };
  }
  const taskId = message?.taskId ?? (isId('task', id) ? id : '');
  const task = await tx.task.findUnique({ where: { id: taskId, roomId } });
  if (!task) throw new NotFound('no such message, task, memory entry or file in this room');
  const { senderCompanyId: companyId, redactedAt, runId } = task;
  return { subject: task.id, kind: 'task', companyId, redactedAt, taskId: task.id, runId };
}

async function erase(tx: Tx, target: Target, at: Date): Promise<void> {
  const { subject, taskId } = target;
  const stamp = at.toISOString();
  switch (target.kind) {
    case 'message':
      await tx.$executeRaw`UPDATE messages SET text = '', redacted_at = ${at} WHERE id = ${subject}`;
      return eraseFromEvents(tx, Prisma.sql`subject_id = ${subject}`, { text: '', redacted_at: stamp });
    case 'memory': {
      await tx.$executeRaw`
        UPDATE memory_entries SET content = '', tags = '{}', redacted_at = ${at},
                                  deprecated_at = coalesce(deprecated_at, ${at})
        WHERE id = ${subject}`;
      // The event of a private entry never held its content.
      const shared = Prisma.sql`subject_id = ${subject} AND data ? 'content'`;
      return eraseFromEvents(tx, shared, { content: '', tags: [], redacted_at: stamp });
    }
    case 'file':
      await eraseFile(tx, subject, at);
      // The stored answer of the upload, which a repeated request would return.
      await tx.$executeRaw`
        UPDATE stored_answers SET body = (body::jsonb || '{"name": "", "sha256": ""}')::json WHERE subject_id = ${subject}`;
      return eraseFromEvents(tx, Prisma.sql`subject_id = ${subject}`, { name: '', sha256: '', redacted_at: stamp });
    case 'task':
      declareLock(tx, 'task');
      await tx.$executeRaw`
        UPDATE tasks SET goal = '', acceptance_criteria = '{}', verdict_note = NULL, redacted_at = ${at}
        WHERE id = ${subject}`;
      await tx.$executeRaw`
        UPDATE messages SET text = '', redacted_at = ${at} WHERE task_id = ${subject} AND kind = 'task_card'`;
      return eraseFromEvents(tx, Prisma.sql`subject_id = ${subject} AND data ? 'goal'`, {
        goal: '',
        acceptance_criteria: [],
        verdict_note: null,
        redacted_at: stamp,
      });
    case 'response':
      await tx.$executeRaw`UPDATE messages SET text = '', redacted_at = ${at} WHERE id = ${subject}`;
      declareLock(tx, 'task');
      await tx.$executeRaw`
        UPDATE tasks SET result = '' WHERE id = ${taskId} AND response_message_id = ${subject}`;
      return eraseFromEvents(tx, Prisma.sql`subject_id = ${taskId} AND data->>'response' = ${subject}`, { result: '' });
  }
}

async function eraseFromEvents(tx: Tx, events: Prisma.Sql, erased: Record<string, unknown>): Promise<void> {
  await tx.$executeRaw`UPDATE room_events SET data = data || ${JSON.stringify(erased)}::jsonb WHERE ${events}`;
}

// Erases the subject from runs: the rendered context of open runs, which the next request renders again, and the stored
// reply and held action of the run that wrote the subject.
async function eraseFromRuns(tx: Tx, roomId: string, target: Target): Promise<void> {
  await tx.$executeRaw`
    UPDATE runs SET context = NULL,
                    manifest = CASE WHEN context IS NULL THEN manifest ELSE manifest || '{"redacted_since": true}' END
    WHERE id IN (SELECT id FROM runs WHERE room_id = ${roomId} AND state = 'open' ORDER BY id
                 ${forNoKeyUpdate(tx, 'run')})`;
  if (target.runId === null) return;
  const { reply } = await loadLockedRun(tx, target.runId);
  if (reply === null) return;
  const effectId = target.taskId ?? target.subject;
  const done = await tx.runStep.findMany({ where: { runId: target.runId, effectId, state: 'done' } });
  const keys = new Set(done.map((step) => step.stepKey));
  const steps = planSteps(declaredKinds(reply)).filter(
    ({ key, kind }) => keys.has(key) && ERASED_PARTS[kind].writes === target.kind,
  );
  const erased = steps.reduce((left, { kind, index }) => ERASED_PARTS[kind].erase(left, index), reply);
  await tx.$executeRaw`UPDATE runs SET reply = ${JSON.stringify(erased)}::jsonb WHERE id = ${target.runId}`;
  // The stored answers that showed the action are deleted too: a repeated decision is then answered from the action's row.
  await tx.$executeRaw`
    WITH held AS (
      UPDATE held_actions SET action = NULL
      WHERE run_id = ${target.runId} AND step_key = ANY(${steps.map((step) => step.key)}::text[])
      RETURNING id
    )
    DELETE FROM stored_answers WHERE subject_id IN (SELECT id FROM held)`;
}

interface ErasedPart {
  /** The subject that a step of this kind writes. */
  readonly writes: Redaction['kind'];
  /** The reply without any text of the action at this index. It declares the same actions, so that an open run keeps its steps. */
  readonly erase: (reply: DeclaredReply, index: number) => DeclaredReply;
}

/** What a redaction erases from a stored reply, for each kind of step. */
const ERASED_PARTS: Readonly<Record<StepKind, ErasedPart>> = {
  reply: { writes: 'message', erase: (reply) => ({ ...reply, reply: '' }) },
  memory: {
    writes: 'memory',
    erase: (reply) => ({ ...reply, memory: reply.memory && { ...reply.memory, content: '', tags: [] } }),
  },
  task_update: {
    writes: 'response',
    erase: (reply, index) => ({
      ...reply,
      task_updates: reply.task_updates.with(index, { ...reply.task_updates[index]!, result: '' }),
    }),
  },
  task_send: {
    writes: 'task',
    erase: (reply, index) => ({
      ...reply,
      tasks_to_send: reply.tasks_to_send.with(index, {
        ...reply.tasks_to_send[index]!,
        goal: '',
        acceptance_criteria: [],
      }),
    }),
  },
};
