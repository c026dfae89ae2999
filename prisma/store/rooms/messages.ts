// Messages: immutable text, and the agents that it addresses.

import { WAKES_PER_MESSAGE_LIMIT } from '../../../workflows/contract';
import type { Message } from '../../generated/client';
import { findMentions } from '../../../workflows/policy/mentions';
import { type Author, type NewWake, type RoomDraft } from './room-draft';
import { InvalidInput, NotFound } from '../db/errors';
import { publicReason } from '../eligibility/gates';
import { newId } from '../db/ids';
import { suppressionReasonOf, rosterOf, type RoomForWrite, type RosterAgent } from './roster';
import { pageOf, type Page, type PageRequest } from '../db/paging';
import type { Reader, SqlTx } from '../db/transaction';

/** A wake as the author of the message sees it. */
export interface CausedWake {
  readonly wakeId: string;
  readonly agentId: string;
  readonly agentCompanyId: string;
  readonly slug: string;
  readonly status: 'pending' | 'suppressed';
  readonly reason: NewWake['reason'];
}

export interface StagedMessage {
  readonly messageId: string;
  readonly eventId: string;
  readonly wakes: readonly CausedWake[];
}

export interface MessageToPost {
  readonly author: Author;
  readonly text: string;
  /** Slugs to address, in addition to the mentions in the text. */
  readonly mentions: readonly string[];
  readonly hop: number;
  readonly runId: string | null;
  readonly refersTo: string | null;
}

/**
 * Stages a text message, with a wake for every always-on agent that it addresses, at most ten.
 *
 * Reads the roster only if the text or the list may address an agent.
 * @throws InvalidInput if a slug in `mentions` is not on the roster, or if the message would wake more than ten agents
 */
export async function stageMessage(
  tx: SqlTx,
  draft: RoomDraft,
  room: RoomForWrite,
  message: MessageToPost,
): Promise<StagedMessage> {
  const mayAddress = message.mentions.length > 0 || /[@\uFF20]/.test(message.text);
  const roster = mayAddress ? await rosterOf(tx, room) : [];
  const addressed = addressedAgents(message, roster);
  return stageAddressed(draft, room, {
    kind: 'text',
    author: message.author,
    text: message.text,
    hop: message.hop,
    taskId: null,
    runId: message.runId,
    refersTo: message.refersTo,
    addressed,
    event: (messageId) => ({
      type: 'message',
      data: messageResource({
        id: messageId,
        roomId: room.id,
        kind: 'text',
        author: message.author,
        text: message.text,
        hop: message.hop,
        addressed: addressed.map((agent) => agent.agentId),
        taskId: null,
        runId: message.runId,
        refersTo: message.refersTo,
        createdAt: null,
        redactedAt: null,
      }),
    }),
  });
}

/** Stages a message of any kind for the given agents, with its event, its wakes and the events of suppressed wakes. */
export function stageAddressed(
  draft: RoomDraft,
  room: RoomForWrite,
  input: {
    kind: 'text' | 'task_card' | 'response_card';
    author: Author;
    text: string;
    hop: number;
    taskId: string | null;
    runId: string | null;
    refersTo: string | null;
    addressed: readonly RosterAgent[];
    event: (messageId: string) => {
      type: 'message' | 'task' | 'task_response';
      subjectId?: string;
      data: Record<string, unknown>;
    };
  },
): StagedMessage {
  const messageId = newId('msg');
  const woken = input.addressed.filter((agent) => agent.alwaysOn && agent.agentId !== authorAgent(input.author));
  if (woken.length > WAKES_PER_MESSAGE_LIMIT) {
    throw new InvalidInput(
      `a message may wake at most ${WAKES_PER_MESSAGE_LIMIT} agents; this one would wake ${woken.length}`,
    );
  }
  const wakes = woken.map((agent) => ({
    id: newId('wake'),
    agentId: agent.agentId,
    messageId,
    companyId: agent.companyId,
    taskId: input.taskId,
    hop: input.hop,
    reason: suppressionReasonOf(room, agent, input.hop),
  }));
  const { type, subjectId, data } = input.event(messageId);
  const eventId = draft.addEvent({ type, author: input.author, subjectId: subjectId ?? messageId, data });
  draft.addMessage(
    {
      id: messageId,
      kind: input.kind,
      author: input.author,
      text: input.text,
      hop: input.hop,
      taskId: input.taskId,
      runId: input.runId,
      refersTo: input.refersTo,
      addressees: input.addressed.map((agent) => agent.agentId),
    },
    eventId,
    wakes,
  );
  for (const wake of wakes) if (wake.reason !== null) stageSuppressed(draft, { ...wake, reason: wake.reason });
  return {
    messageId,
    eventId,
    wakes: wakes.map((wake, index) => ({
      wakeId: wake.id,
      agentId: wake.agentId,
      agentCompanyId: wake.companyId,
      slug: (woken[index] as RosterAgent).slug,
      status: wake.reason === null ? 'pending' : 'suppressed',
      reason: wake.reason,
    })),
  };
}

/** Stages the event that shows a suppressed wake to the room, with the part of the reason that every member may see. */
export function stageSuppressed(
  draft: RoomDraft,
  wake: { id: string; agentId: string; messageId: string; companyId: string; reason: NonNullable<NewWake['reason']> },
): void {
  draft.addEvent({
    type: 'wake_suppressed',
    author: null,
    companyId: wake.companyId,
    subjectId: wake.id,
    data: { wake: wake.id, agent: wake.agentId, message: wake.messageId, reason: publicReason(wake.reason) },
  });
}

/** The hop of a message that an agent's key posts: one above the newest message that addresses the agent. */
export async function hopOfAgentPost(tx: SqlTx, roomId: string, agentId: string): Promise<number> {
  const [newest] = await tx.$queryRaw<{ hop: number }[]>`
    SELECT m.hop FROM message_addressees a JOIN messages m ON m.id = a.message_id
    WHERE a.room_id = ${roomId} AND a.agent_id = ${agentId} ORDER BY a.seq DESC LIMIT 1`;
  return (newest?.hop ?? 0) + 1;
}

/** A room's messages by their number in the room. */
export async function listMessages(
  reader: Reader,
  roomId: string,
  page: PageRequest,
): Promise<Page<Record<string, unknown>>> {
  const after = page.after === null ? null : BigInt(page.after);
  const messages = await reader.message.findMany({
    where: { roomId, ...(after !== null && { seq: page.order === 'asc' ? { gt: after } : { lt: after } }) },
    orderBy: { seq: page.order },
    include: { addressees: { orderBy: { agentId: 'asc' } } },
    take: page.limit + 1,
  });
  const { rows, next } = pageOf(messages, page, (message) => message.seq.toString());
  return { rows: rows.map(resourceOf), next };
}

/** A room's messages after a number that address one agent, in order; and the number from which to continue. */
export async function listMessagesTo(
  reader: Reader,
  roomId: string,
  agentId: string,
  page: { readonly after: bigint; readonly limit: number },
): Promise<{ messages: Record<string, unknown>[]; lastSeq: bigint }> {
  const addressed = await reader.messageAddressee.findMany({
    where: { roomId, agentId, seq: { gt: page.after } },
    orderBy: { seq: 'asc' },
    include: { message: { include: { addressees: { orderBy: { agentId: 'asc' } } } } },
    take: page.limit,
  });
  return {
    messages: addressed.map(({ message }) => resourceOf(message)),
    lastSeq: addressed.at(-1)?.seq ?? page.after,
  };
}

/** Reads one message. @throws NotFound if this room has no such message */
export async function loadMessage(reader: Reader, roomId: string, messageId: string): Promise<Record<string, unknown>> {
  const message = await reader.message.findUnique({
    where: { id: messageId, roomId },
    include: { addressees: { orderBy: { agentId: 'asc' } } },
  });
  if (!message) throw new NotFound('no such message in this room');
  return resourceOf(message);
}

function resourceOf(message: Message & { addressees: readonly { agentId: string }[] }): Record<string, unknown> {
  const { authorKind: kind, authorId: id, authorName: name, companyId } = message;
  const addressed = message.addressees.map((addressee) => addressee.agentId);
  return messageResource({ ...message, author: { kind, id, name, companyId }, addressed });
}

/** A message as the API and the feed show it. */
export function messageResource(message: {
  id: string;
  roomId: string;
  kind: string;
  author: { kind: string; id: string; name: string; companyId: string };
  text: string;
  hop: number;
  addressed: readonly string[];
  taskId: string | null;
  runId: string | null;
  refersTo: string | null;
  /** Null in a staged message: the append writes it. */
  createdAt: Date | null;
  redactedAt: Date | null;
}): Record<string, unknown> {
  return {
    id: message.id,
    room: message.roomId,
    kind: message.kind,
    company: message.author.companyId,
    author: { kind: message.author.kind, id: message.author.id, name: message.author.name },
    text: message.text,
    mentions: message.addressed,
    hop: message.hop,
    task: message.taskId,
    run: message.runId,
    refers_to: message.refersTo,
    created_at: message.createdAt === null ? null : message.createdAt.toISOString(),
    redacted_at: message.redactedAt?.toISOString() ?? null,
  };
}

function addressedAgents(message: MessageToPost, roster: readonly RosterAgent[]): RosterAgent[] {
  const bySlug = new Map(roster.map((agent) => [agent.slug, agent]));
  const named = message.mentions.map((slug, index) => {
    const agent = bySlug.get(slug.normalize('NFC').toLowerCase());
    if (!agent) throw new InvalidInput('no agent on the roster has this slug', `/mentions/${index}`);
    return agent.agentId;
  });
  const ids = new Set([...named, ...findMentions(message.text, roster).agentIds]);
  return roster.filter((agent) => ids.has(agent.agentId));
}

function authorAgent(author: Author): string | null {
  return author.kind === 'agent' ? author.id : null;
}
