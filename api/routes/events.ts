// The write route of a room: POST one event or a batch. Next, `prisma/store/rooms` appends the events and their wakes.

import type { SqlTx } from '../../prisma/store/db/transaction';
import { InvalidInput, NotAllowed, NotFound } from '../../prisma/store/db/errors';
import { publicReason } from '../../prisma/store/eligibility/gates';
import { deprecateMemory, stageMemory } from '../../prisma/store/rooms/memory';
import { stageMessage, type CausedWake } from '../../prisma/store/rooms/messages';
import { RoomDraft, type AppendedEvent } from '../../prisma/store/rooms/room-draft';
import { recordVerdict, lockTasks, respondToTask, stageTask } from '../../prisma/store/rooms/tasks';
import type { StepKind } from '../../workflows/contract';
import type { CompanyCaller } from '../middleware/caller';
import { admitPoster, requireRight, type Poster } from '../middleware/room-access';
import { Problem, problemOf } from '../problems';
import { created, sqlWriteRoute, type Route } from '../route';
import { eventsBody, type EventBody } from '../schemas/events';
import { postedEvents } from '../schemas/room-answers';

export const eventRoutes: readonly Route[] = [
  sqlWriteRoute({
    method: 'post',
    path: '/v1/rooms/:room/events',
    role: 'company',
    summary: 'Write one event to a room, or a batch of up to 100; a batch is written whole or not at all',
    success: created(postedEvents),
    audit: null,
    body: eventsBody,
    async handle(tx, { caller, ids, body }) {
      const posted = await postEvents(tx, ids.room, caller, body);
      return { status: 201, body: Array.isArray(body) ? posted : posted[0] };
    },
  }),
];

/**
 * Writes a caller's events to a room, all or none. Answers for each its number, its ids and the wakes that it causes.
 */
async function postEvents(
  tx: SqlTx,
  roomId: string,
  caller: CompanyCaller,
  posted: EventBody | readonly EventBody[],
): Promise<Record<string, unknown>[]> {
  const events = 'type' in posted ? [posted] : posted;
  const poster = await admitPoster(tx, roomId, caller);
  const tasks = new Set(events.flatMap((event) => ('task' in event ? [event.task] : [])));
  if (tasks.size > 1) await lockTasks(tx, roomId, [...tasks]);
  const draft = new RoomDraft(roomId);
  const staged: Staged[] = [];
  for (const event of events) {
    const staging = stageEvent(tx, draft, poster, event);
    staged.push(await ('type' in posted ? staging : staging.catch(withBatchIndex(staged.length))));
  }
  const appended = new Map((await draft.append(tx)).map((event) => [event.id, event]));
  return staged.map(({ eventId, subjectId, wakes }) => ({
    seq: Number((appended.get(eventId) as AppendedEvent).seq),
    event: eventId,
    id: subjectId,
    wakes: wakes.map((wake) => causedWakeResource(wake, caller.companyId)),
  }));
}

interface Staged {
  readonly eventId: string;
  /** The message, task or memory entry that the event is about. */
  readonly subjectId: string;
  readonly wakes: readonly CausedWake[];
}

/** Adds one event to the draft. @throws InvalidInput, NotAllowed, Conflict from the store */
async function stageEvent(tx: SqlTx, draft: RoomDraft, poster: Poster, event: EventBody): Promise<Staged> {
  const { author, room, hop } = poster;
  const origin = { hop, runId: null, refersTo: null };
  requireRight(poster, RIGHT_NEEDED[event.type]);
  switch (event.type) {
    case 'message': {
      const message = { author, text: event.text, mentions: event.mentions, ...origin };
      const staged = await stageMessage(tx, draft, room, message);
      return { ...staged, subjectId: staged.messageId };
    }
    case 'task': {
      const staged = await stageTask(tx, draft, room, {
        sender: author,
        to: event.to,
        goal: event.goal,
        acceptanceCriteria: event.acceptance_criteria,
        priority: event.priority,
        deadline: event.deadline,
        memoryRefs: event.memory_refs,
        attachments: event.attachments,
        ...origin,
      }).catch(asInvalidInput('/to'));
      return { ...staged, subjectId: staged.taskId };
    }
    case 'task_response': {
      if (author.kind !== 'agent') throw new NotAllowed('only the recipient of the task may respond');
      const { task: taskId, state, result } = event;
      const response = { responder: author, taskId, state, result, hop, runId: null };
      const staged = await respondToTask(tx, draft, room, response).catch(asInvalidInput('/task'));
      return { ...staged, subjectId: taskId };
    }
    case 'task_verdict': {
      const { task: taskId, verdict, note } = event;
      const judgement = { judge: author, taskId, verdict, note };
      const staged = await recordVerdict(tx, draft, room, judgement).catch(asInvalidInput('/task'));
      return { ...staged, subjectId: taskId, wakes: [] };
    }
    case 'memory': {
      const { category, content, tags, visibility } = event;
      const staged = stageMemory(draft, room.id, { author, category, content, tags, visibility, runId: null });
      return { ...staged, subjectId: staged.memoryId, wakes: [] };
    }
    case 'memory_deprecation': {
      const eventId = await deprecateMemory(tx, draft, author, event.entry).catch(asInvalidInput('/entry'));
      return { eventId, subjectId: event.entry, wakes: [] };
    }
  }
}

/** A wake in the answer to a post. The agent's own company reads the full reason, other companies the public one. */
export function causedWakeResource(wake: CausedWake, companyId: string): Record<string, unknown> {
  const own = wake.agentCompanyId === companyId;
  return {
    wake: wake.wakeId,
    agent: wake.agentId,
    slug: wake.slug,
    status: wake.status,
    reason: wake.reason === null || own ? wake.reason : publicReason(wake.reason),
  };
}

const RIGHT_NEEDED: Readonly<Record<EventBody['type'], StepKind>> = {
  message: 'reply',
  task: 'task_send',
  task_response: 'task_update',
  task_verdict: 'task_update',
  memory: 'memory',
  memory_deprecation: 'memory',
};

/** Answers with 400 instead of 404 when the body refers to an id that the room does not hold. */
function asInvalidInput(pointer: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof NotFound ? new InvalidInput(error.message, pointer) : error;
  };
}

/** Puts the index of the failed event in front of the problem's pointer. */
function withBatchIndex(index: number): (error: unknown) => never {
  return (error) => {
    const problem = problemOf(error);
    if (problem === null || problem.status >= 500) throw error;
    const location = problem.faults[0]?.location;
    const inner = location !== undefined && 'pointer' in location ? location.pointer : '';
    throw new Problem(problem.code, problem.message, { location: { pointer: `/${index}${inner}` } });
  };
}
