// Tasks: each is sent to one agent and shown in the room as a card. The agent may respond until the sender's verdict.
//
//   pending ──claim of the card, or the agent's key──▶ in_progress ──response──▶ done | failed | escalated
//   The sender's verdict (accepted | rejected) is final. Before it, the agent may replace its response.

import type { TaskOutcome, TaskPriority } from '../../../workflows/contract';
import { Prisma, type Task } from '../../generated/client';
import type { Author, NewTask, RoomDraft } from './room-draft';
import { Conflict, InvalidInput, NotAllowed, NotFound } from '../db/errors';
import { newId } from '../db/ids';
import { stageAddressed, type StagedMessage } from './messages';
import { byId, pageOf, type Page, type PageRequest } from '../db/paging';
import { rosterOf, type RoomForWrite } from './roster';
import { declareLock, forNoKeyUpdate } from '../db/lock-order';
import type { Reader, SqlTx } from '../db/transaction';

/** The columns of a task, under the field names of Prisma's model. */
const TASK_COLUMNS = Prisma.raw(
  Object.values(Prisma.TaskScalarFieldEnum)
    .map((field) => `${field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)} AS "${field}"`)
    .join(', '),
);

export interface TaskToSend {
  readonly sender: Author;
  /** Slug of the recipient on the roster. */
  readonly to: string;
  readonly goal: string;
  readonly acceptanceCriteria: readonly string[];
  readonly priority: TaskPriority;
  readonly deadline: string | null;
  readonly memoryRefs: readonly string[];
  readonly attachments: readonly string[];
  readonly hop: number;
  readonly runId: string | null;
  readonly refersTo: string | null;
}

/**
 * Stages a task and its card, and the wake of its recipient.
 *
 * Only the recipient is woken, even if the goal mentions other agents.
 * @throws NotFound if no agent on the roster has that slug; InvalidInput if a referenced entry or file does not exist.
 */
export async function stageTask(
  tx: SqlTx,
  draft: RoomDraft,
  room: RoomForWrite,
  task: TaskToSend,
): Promise<StagedMessage & { taskId: string }> {
  const roster = await rosterOf(tx, room);
  const slug = task.to.normalize('NFC').toLowerCase();
  const recipient = roster.find((agent) => agent.slug === slug);
  if (!recipient) throw new NotFound('no agent on the roster has this slug');
  await checkMemoryRefs(tx, room.id, task);
  await checkAttachments(tx, room.id, task);
  const taskId = newId('task');
  const { to: _to, hop, refersTo, ...fields } = task;
  const newTask = (cardMessageId: string): NewTask => ({
    ...fields,
    id: taskId,
    cardMessageId,
    recipientAgentId: recipient.agentId,
  });
  const staged = stageAddressed(draft, room, {
    kind: 'task_card',
    author: task.sender,
    text: task.goal,
    hop,
    taskId,
    runId: task.runId,
    refersTo,
    addressed: [recipient],
    event: (cardMessageId) => ({
      type: 'task',
      subjectId: taskId,
      data: taskResource(pendingTask(room.id, newTask(cardMessageId))),
    }),
  });
  draft.addTask(newTask(staged.messageId));
  return { ...staged, taskId };
}

/**
 * Records the recipient's response and stages the card that shows it. The sender is woken if it is an always-on agent.
 * @throws NotFound if the room has no such task; NotAllowed if another agent is the recipient; Conflict after the verdict.
 */
export async function respondToTask(
  tx: SqlTx,
  draft: RoomDraft,
  room: RoomForWrite,
  response: {
    responder: Author;
    taskId: string;
    state: TaskOutcome;
    result: string;
    hop: number;
    runId: string | null;
    /** True: a task with a response is refused, although a response may be replaced until the verdict. */
    onlyWhileOpen?: boolean;
  },
): Promise<StagedMessage> {
  const task = await lockTask(tx, room.id, response.taskId);
  if (response.responder.kind !== 'agent' || response.responder.id !== task.recipientAgentId) {
    throw new NotAllowed('only the recipient of the task may respond');
  }
  if (task.verdict !== null) throw new Conflict('the task already has a verdict');
  if (response.onlyWhileOpen === true && !isOpen(task)) throw new Conflict('the task already has a response');
  const messageId = { current: '' };
  const updated = { ...task, state: response.state, result: response.result, respondedAt: await clock(tx) };
  const sender = task.senderKind === 'agent' ? task.senderId : null;
  const addressed = sender === null ? [] : (await rosterOf(tx, room)).filter((agent) => agent.agentId === sender);
  const staged = stageAddressed(draft, room, {
    kind: 'response_card',
    author: response.responder,
    text: response.result,
    hop: response.hop,
    taskId: task.id,
    runId: response.runId,
    refersTo: task.cardMessageId,
    addressed,
    event: (id) => {
      messageId.current = id;
      return { type: 'task_response', subjectId: task.id, data: taskResource({ ...updated, responseMessageId: id }) };
    },
  });
  await tx.$executeRaw`
    UPDATE tasks SET state = ${response.state}, result = ${response.result}, response_message_id = ${messageId.current},
                     responded_at = ${updated.respondedAt}
    WHERE id = ${task.id}`;
  return staged;
}

/**
 * Records the sender's verdict, which is final and wakes no agent.
 * @throws NotFound; NotAllowed if the judge is neither the sender nor a person of its company; Conflict if the task has no
 * response yet, or has a verdict
 */
export async function recordVerdict(
  tx: SqlTx,
  draft: RoomDraft,
  room: RoomForWrite,
  judgement: { judge: Author; taskId: string; verdict: 'accepted' | 'rejected'; note: string | null },
): Promise<{ taskId: string; eventId: string }> {
  const task = await lockTask(tx, room.id, judgement.taskId);
  const { judge } = judgement;
  const isSender = judge.kind === task.senderKind && judge.id === task.senderId;
  const isOfSendersCompany = judge.kind === 'person' && judge.companyId === task.senderCompanyId;
  if (!isSender && !isOfSendersCompany) throw new NotAllowed('only the sender of the task may judge it');
  if (isOpen(task)) throw new Conflict('the task has no response yet');
  if (task.verdict !== null) throw new Conflict('the task already has a verdict');
  const verdictAt = await clock(tx);
  const updated = { ...task, verdict: judgement.verdict, verdictNote: judgement.note, verdictAt };
  await tx.$executeRaw`
    UPDATE tasks SET verdict = ${judgement.verdict}, verdict_note = ${judgement.note}, verdict_at = ${verdictAt}
    WHERE id = ${task.id}`;
  const eventId = draft.addEvent({
    type: 'task_verdict',
    author: judge,
    subjectId: task.id,
    data: taskResource(updated),
  });
  return { taskId: task.id, eventId };
}

/** Moves the given tasks from pending to in_progress and stages the events. Other states stay. Idempotent. */
export async function startTasks(
  tx: SqlTx,
  draft: RoomDraft,
  taskIds: readonly string[],
  agent: Author,
): Promise<void> {
  declareLock(tx, 'task');
  const started = await tx.$queryRaw<Task[]>`
    UPDATE tasks SET state = 'in_progress' WHERE id = ANY(${[...taskIds]}::text[]) AND state = 'pending'
    RETURNING ${TASK_COLUMNS}`;
  for (const task of started.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    draft.addEvent({ type: 'task_started', author: agent, subjectId: task.id, data: taskResource(task) });
  }
}

/** A task. `createdAt` is null before its row is written: the append sets it to the time of the event. */
type TaskRow = Omit<Task, 'createdAt'> & { createdAt: Date | null };

function pendingTask(roomId: string, { sender, ...task }: NewTask): TaskRow {
  return {
    ...task,
    roomId,
    senderKind: sender.kind,
    senderId: sender.id,
    senderName: sender.name,
    senderCompanyId: sender.companyId,
    acceptanceCriteria: [...task.acceptanceCriteria],
    memoryRefs: [...task.memoryRefs],
    attachments: [...task.attachments],
    state: 'pending',
    result: null,
    responseMessageId: null,
    respondedAt: null,
    verdict: null,
    verdictNote: null,
    verdictAt: null,
    createdAt: null,
    redactedAt: null,
  };
}

/** A task as the API and the feed show it. */
export function taskResource(task: TaskRow): Record<string, unknown> {
  return {
    id: task.id,
    room: task.roomId,
    card: task.cardMessageId,
    sender: { kind: task.senderKind, id: task.senderId, name: task.senderName, company: task.senderCompanyId },
    recipient: task.recipientAgentId,
    goal: task.goal,
    acceptance_criteria: task.acceptanceCriteria,
    priority: task.priority,
    deadline: task.deadline,
    memory_refs: task.memoryRefs,
    attachments: task.attachments,
    state: task.state,
    result: task.result,
    response: task.responseMessageId,
    responded_at: task.respondedAt?.toISOString() ?? null,
    verdict: task.verdict,
    verdict_note: task.verdictNote,
    verdict_at: task.verdictAt?.toISOString() ?? null,
    run: task.runId,
    created_at: task.createdAt?.toISOString() ?? null,
    redacted_at: task.redactedAt?.toISOString() ?? null,
  };
}

/** A room's tasks, by id. */
export async function listTasks(
  reader: Reader,
  roomId: string,
  filter: { state: string | undefined; recipient: string | undefined },
  page: PageRequest,
): Promise<Page<Task>> {
  const { where, ...rest } = byId(page);
  const { state, recipient } = filter;
  const tasks = await reader.task.findMany({
    where: {
      ...where,
      roomId,
      ...(state !== undefined && { state }),
      ...(recipient !== undefined && { recipientAgentId: recipient }),
    },
    ...rest,
  });
  return pageOf(tasks, page, (task) => task.id);
}

/** Reads one task. @throws NotFound if this room has no such task */
export async function loadTask(reader: Reader, roomId: string, taskId: string): Promise<Task> {
  const task = await reader.task.findUnique({ where: { id: taskId, roomId } });
  if (!task) throw new NotFound('no such task in this room');
  return task;
}

/** The states of a task without a response. */
export const OPEN_TASK_STATES = ['pending', 'in_progress'] as const;

/** True while the task has no response. */
export function isOpen(task: { state: string }): boolean {
  return OPEN_TASK_STATES.some((state) => state === task.state);
}

/** Locks the given tasks of a room, by id. Required before a transaction locks more than one task. */
export async function lockTasks(tx: SqlTx, roomId: string, taskIds: readonly string[]): Promise<void> {
  await tx.$queryRaw`
    SELECT 1 AS locked FROM tasks WHERE id = ANY(${[...taskIds]}::text[]) AND room_id = ${roomId}
    ORDER BY id ${forNoKeyUpdate(tx, 'task')}`;
}

/** Locks a task of this room. @throws NotFound */
export async function lockTask(tx: SqlTx, roomId: string, taskId: string): Promise<Task> {
  const [task] = await tx.$queryRaw<Task[]>`
    SELECT ${TASK_COLUMNS} FROM tasks WHERE id = ${taskId} AND room_id = ${roomId} ${forNoKeyUpdate(tx, 'task')}`;
  if (!task) throw new NotFound('no such task in this room');
  return task;
}

async function clock(tx: SqlTx): Promise<Date> {
  const [row] = await tx.$queryRaw<{ at: Date }[]>`SELECT clock_ms() AS at`;
  return (row as { at: Date }).at;
}

async function checkAttachments(tx: SqlTx, roomId: string, { attachments }: TaskToSend): Promise<void> {
  if (attachments.length === 0) return;
  const found = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM files WHERE id = ANY(${[...attachments]}::text[]) AND room_id = ${roomId}`;
  const known = new Set(found.map((file) => file.id));
  const unknown = attachments.findIndex((id) => !known.has(id));
  if (unknown >= 0) throw new InvalidInput('no such file in this room', `/attachments/${unknown}`);
}

async function checkMemoryRefs(tx: SqlTx, roomId: string, task: TaskToSend): Promise<void> {
  if (task.memoryRefs.length === 0) return;
  const found = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM memory_entries
    WHERE id = ANY(${[...task.memoryRefs]}::text[]) AND room_id = ${roomId}
      AND (visibility = 'shared' OR company_id = ${task.sender.companyId})`;
  const known = new Set(found.map((entry) => entry.id));
  const unknown = task.memoryRefs.findIndex((id) => !known.has(id));
  if (unknown >= 0) throw new InvalidInput('no such memory entry in this room', `/memory_refs/${unknown}`);
}
