// Events on their way into a room: what the caller may write there, and which store function stages each. The route opens
// the transaction; all of a batch is appended in one statement, or nothing is.

import { RoomDraft, type AppendedEvent, type Author } from '../prisma/store/rooms/room-draft';
import { InvalidInput, NotAllowed, NotFound } from '../prisma/store/db/errors';
import { publicReason } from '../prisma/store/eligibility/gates';
import { deprecateMemory, stageMemory } from '../prisma/store/rooms/memory';
import { hopOfAgentPost, stageMessage, type CausedWake } from '../prisma/store/rooms/messages';
import { lockRights, lockRoomForWrite, type RoomForWrite } from '../prisma/store/rooms/roster';
import { judgeTask, lockTasks, respondToTask, stageTask } from '../prisma/store/rooms/tasks';
import type { SqlTx } from '../prisma/store/db/transaction';
import type { StepKind, Rights } from '../workflows/contract';
import { authorOf, type CompanyCaller } from './callers';
import { Problem, problemOf } from './problems';
import type { EventBody } from './schemas/events';

/** Writes a caller's events to a room, all or none, and says of each where it stands and whom it wakes. */
export async function postEvents(
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
    staged.push(await ('type' in posted ? staging : staging.catch(inBatch(staged.length))));
  }
  const appended = new Map((await draft.append(tx)).map((event) => [event.id, event]));
  return staged.map(({ eventId, subjectId, wakes }) => ({
    seq: Number((appended.get(eventId) as AppendedEvent).seq),
    event: eventId,
    id: subjectId,
    wakes: wakes.map((wake) => wakeAnswer(wake, caller.companyId)),
  }));
}

/** A caller at a room's door, its membership and its agent's rights locked until the transaction ends. */
export interface Poster {
  readonly author: Author;
  readonly room: RoomForWrite;
  /** Of the agent whose key it is; null for people and services. */
  readonly rights: Rights | null;
  /** Of what is posted now: 0, or for an agent's key one above what last addressed that agent. */
  readonly hop: number;
}

interface Staged {
  readonly eventId: string;
  /** The message, task or memory entry that the event is about. */
  readonly subjectId: string;
  readonly wakes: readonly CausedWake[];
}

/** @throws NotFound when the caller is not in the room; Conflict when it is closed */
export async function admitPoster(tx: SqlTx, roomId: string, caller: CompanyCaller): Promise<Poster> {
  const author = authorOf(caller);
  const room = await lockRoomForWrite(tx, roomId, caller.companyId);
  if (caller.kind !== 'agent') return { author, room, rights: null, hop: 0 };
  const rights = await lockRights(tx, roomId, caller.agentId);
  if (rights === null) throw new NotFound('no such room');
  return { author, room, rights, hop: await hopOfAgentPost(tx, roomId, caller.agentId) };
}

/** Stages an event for one poster. @throws InvalidInput, NotAllowed, Conflict, as the store says */
async function stageEvent(tx: SqlTx, draft: RoomDraft, poster: Poster, event: EventBody): Promise<Staged> {
  const { author, room, hop } = poster;
  const origin = { hop, runId: null, refersTo: null };
  assertRight(poster, RIGHT_NEEDED[event.type]);
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
      }).catch(asInvalid('/to'));
      return { ...staged, subjectId: staged.taskId };
    }
    case 'task_response': {
      if (author.kind !== 'agent') throw new NotAllowed('only the agent that the task was sent to may respond');
      const { task: taskId, state, result } = event;
      const response = { responder: author, taskId, state, result, hop, runId: null };
      const staged = await respondToTask(tx, draft, room, response).catch(asInvalid('/task'));
      return { ...staged, subjectId: taskId };
    }
    case 'task_verdict': {
      const { task: taskId, verdict, note } = event;
      const judgement = { judge: author, taskId, verdict, note };
      const staged = await judgeTask(tx, draft, room, judgement).catch(asInvalid('/task'));
      return { ...staged, subjectId: taskId, wakes: [] };
    }
    case 'memory': {
      const { category, content, tags, visibility } = event;
      const staged = stageMemory(draft, room.id, { author, category, content, tags, visibility, runId: null });
      return { ...staged, subjectId: staged.memoryId, wakes: [] };
    }
    case 'memory_deprecation': {
      const eventId = await deprecateMemory(tx, draft, author, event.entry).catch(asInvalid('/entry'));
      return { eventId, subjectId: event.entry, wakes: [] };
    }
  }
}

/** A wake as the answer to its post tells of it: all of why to the agent's own company, to others what they may know. */
export function wakeAnswer(wake: CausedWake, companyId: string): Record<string, unknown> {
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

/** Rights bind an agent's key too: what a run would hold, a key is refused. */
export function assertRight({ rights }: Pick<Poster, 'rights'>, kind: StepKind): void {
  if (rights === null || rights[kind] === 'go') return;
  throw new NotAllowed(`this agent's right to ${kind} is "${rights[kind]}" in this room`);
}

/** What a body refers to and the room does not hold is the body's fault. */
function asInvalid(pointer: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof NotFound ? new InvalidInput(error.message, pointer) : error;
  };
}

/** What is wrong with one event of a batch, told of its place there. */
function inBatch(index: number): (error: unknown) => never {
  return (error) => {
    const problem = problemOf(error);
    if (problem === null || problem.status >= 500) throw error;
    const place = problem.faults[0]?.place;
    const inner = place !== undefined && 'pointer' in place ? place.pointer : '';
    throw new Problem(problem.code, problem.message, { place: { pointer: `/${index}${inner}` } });
  };
}
