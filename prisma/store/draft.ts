// What a transaction adds to a room, gathered first and written at its end: the door's batch and a run's step alike.
// The room's row is locked last and once, so its lock is held for two statements and numbers come in commit order.

import type { MemoryCategory, MemoryVisibility, SuppressedReason, TaskPriority } from '../../workflows/contract';
import type { Tx } from './transaction';
import { newId } from './ids';

/** The channel on which the dispatcher hears that wakes are pending. A hint: the table is the truth. */
export const WAKES_CHANNEL = 'durable_room_wakes';

export const ROOM_EVENT_TYPES = [
  'message',
  'task',
  'task_response',
  'task_verdict',
  'memory',
  'memory_deprecation',
  'member_joined',
  'member_left',
  'agent_added',
  'agent_removed',
  'file_added',
  'task_started',
  'wake_suppressed',
  'run_ended',
  'room_paused',
  'room_resumed',
  'room_closed',
  'redacted',
] as const;
export type RoomEventType = (typeof ROOM_EVENT_TYPES)[number];

/** Who wrote something. The name is kept as it was at that time. */
export interface Author {
  readonly kind: 'person' | 'service' | 'agent';
  readonly id: string;
  readonly name: string;
  readonly companyId: string;
}

export interface NewEvent {
  readonly type: RoomEventType;
  /** Null: the room itself says it. */
  readonly author: Author | null;
  /** The company it concerns, where the room itself says it. */
  readonly companyId?: string;
  readonly subjectId: string;
  readonly data: Record<string, unknown>;
}

export interface NewMessage {
  readonly id: string;
  readonly kind: 'text' | 'task_card' | 'response_card';
  readonly author: Author;
  readonly text: string;
  readonly hop: number;
  readonly taskId: string | null;
  readonly runId: string | null;
  readonly refersTo: string | null;
  /** Every agent that it addresses, always-on or not. */
  readonly addressees: readonly string[];
}

export interface NewWake {
  readonly id: string;
  readonly agentId: string;
  readonly messageId: string;
  /** The agent's company. */
  readonly companyId: string;
  readonly taskId: string | null;
  readonly hop: number;
  /** Set: the wake is suppressed from the start. */
  readonly reason: SuppressedReason | null;
}

export interface NewTask {
  readonly id: string;
  readonly cardMessageId: string;
  readonly sender: Author;
  readonly recipientAgentId: string;
  readonly goal: string;
  readonly acceptanceCriteria: readonly string[];
  readonly priority: TaskPriority;
  readonly deadline: string | null;
  readonly memoryRefs: readonly string[];
  readonly attachments: readonly string[];
  readonly runId: string | null;
}

export interface NewMemory {
  readonly id: string;
  readonly author: Author;
  readonly category: MemoryCategory;
  readonly tags: readonly string[];
  readonly content: string;
  readonly visibility: MemoryVisibility;
  readonly runId: string | null;
}

/** Where an event came to stand. */
export interface AppendedEvent {
  readonly id: string;
  readonly seq: bigint;
  readonly at: Date;
}

/** Rows to add to one room. Staging touches no database; `append` writes all of it. */
export class RoomDraft {
  readonly roomId: string;
  private readonly events: (NewEvent & { id: string })[] = [];
  private readonly messages: (NewMessage & { eventId: string })[] = [];
  private readonly wakes: NewWake[] = [];
  private readonly tasks: NewTask[] = [];
  private readonly memory: NewMemory[] = [];

  constructor(roomId: string) {
    this.roomId = roomId;
  }

  /** Stages a room event and returns its id. */
  addEvent(event: NewEvent): string {
    const id = newId('evt');
    this.events.push({ ...event, id });
    return id;
  }

  /** Stages a message behind the event that shows it, with the wakes that it causes. */
  addMessage(message: NewMessage, eventId: string, wakes: readonly NewWake[]): void {
    this.messages.push({ ...message, eventId });
    this.wakes.push(...wakes);
  }

  addTask(task: NewTask): void {
    this.tasks.push(task);
  }

  addMemory(entry: NewMemory): void {
    this.memory.push(entry);
  }

  get isEmpty(): boolean {
    return this.events.length === 0;
  }

  /**
   * Writes what was staged and returns where each event stands, in the order in which they were staged.
   *
   * Runs in the caller's transaction and takes the room's lock: nothing that takes another lock may come after it.
   */
  async append(tx: Tx): Promise<AppendedEvent[]> {
    if (this.isEmpty) return [];
    const appended = await this.appendEvents(tx);
    if (this.messages.length > 0 || this.memory.length > 0) await this.insertRows(tx, appended);
    return appended;
  }

  // One statement: numbers are handed out under the room's row lock, and the clock is read after it was taken,
  // so that within a room neither seq nor time ever runs backwards. Resources get their seq and time written in.
  private async appendEvents(tx: Tx): Promise<AppendedEvent[]> {
    const rows = this.events.map((event) => ({
      id: event.id,
      type: event.type,
      company_id: event.author?.companyId ?? event.companyId ?? null,
      author_kind: event.author?.kind ?? 'system',
      author_id: event.author?.id ?? null,
      author_name: event.author?.name ?? null,
      subject_id: event.subjectId,
      data: event.data,
    }));
    const appended = await tx.$queryRaw<AppendedEvent[]>`
      WITH room AS (
        UPDATE rooms SET last_seq = last_seq + ${rows.length} WHERE id = ${this.roomId}
        RETURNING last_seq - ${rows.length} AS base, clock_timestamp()::timestamptz(3) AS at
      )
      INSERT INTO room_events (room_id, seq, id, type, company_id, author_kind, author_id, author_name, subject_id, data, at)
      SELECT ${this.roomId}, room.base + n, e->>'id', e->>'type', e->>'company_id', e->>'author_kind', e->>'author_id',
             e->>'author_name', e->>'subject_id',
             CASE WHEN e->'data' ? 'created_at'
               THEN e->'data' || jsonb_build_object('created_at',
                 to_char(room.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
               ELSE e->'data' END,
             room.at
      FROM room, jsonb_array_elements(${JSON.stringify(rows)}::jsonb) WITH ORDINALITY AS x(e, n)
      RETURNING id, seq, at`;
    if (appended.length !== rows.length) throw new Error('room events were appended to no room');
    const byId = new Map(appended.map((event) => [event.id, event]));
    return this.events.map((event) => byId.get(event.id) as AppendedEvent);
  }

  // One statement for all the rest. Notifying costs a lock on commit, so it is done only when a wake is pending.
  private async insertRows(tx: Tx, appended: readonly AppendedEvent[]): Promise<void> {
    const seqs = new Map(appended.map((event) => [event.id, event.seq]));
    const at = (appended[0] as AppendedEvent).at;
    const messages = this.messages.map((message) => ({
      id: message.id,
      seq: Number(seqs.get(message.eventId)),
      kind: message.kind,
      ...authorColumns(message.author),
      text: message.text,
      hop: message.hop,
      task_id: message.taskId,
      run_id: message.runId,
      refers_to: message.refersTo,
    }));
    const addressees = this.messages.flatMap((message) =>
      message.addressees.map((agentId) => ({
        message_id: message.id,
        agent_id: agentId,
        seq: Number(seqs.get(message.eventId)),
      })),
    );
    const tasks = this.tasks.map((task) => ({
      id: task.id,
      card_message_id: task.cardMessageId,
      sender_kind: task.sender.kind,
      sender_id: task.sender.id,
      sender_name: task.sender.name,
      sender_company_id: task.sender.companyId,
      recipient_agent_id: task.recipientAgentId,
      goal: task.goal,
      acceptance_criteria: task.acceptanceCriteria,
      priority: task.priority,
      deadline: task.deadline,
      memory_refs: task.memoryRefs,
      attachments: task.attachments,
      run_id: task.runId,
    }));
    const memory = this.memory.map((entry) => ({
      id: entry.id,
      ...authorColumns(entry.author),
      category: entry.category,
      tags: entry.tags,
      content: entry.content,
      visibility: entry.visibility,
      run_id: entry.runId,
    }));
    const wakes = this.wakes.map((wake) => ({
      id: wake.id,
      agent_id: wake.agentId,
      message_id: wake.messageId,
      company_id: wake.companyId,
      task_id: wake.taskId,
      hop: wake.hop,
      state: wake.reason === null ? 'pending' : 'suppressed',
      reason: wake.reason,
    }));
    const rows = JSON.stringify({ messages, addressees, tasks, memory, wakes });
    const pending = this.wakes.some((wake) => wake.reason === null);
    await tx.$queryRaw`
      WITH input AS (SELECT ${rows}::jsonb AS j),
      new_messages AS (
        INSERT INTO messages (id, room_id, seq, kind, company_id, author_kind, author_id, author_name, text, hop,
                              task_id, run_id, refers_to, created_at)
        SELECT x.id, ${this.roomId}, x.seq, x.kind, x.company_id, x.author_kind, x.author_id, x.author_name, x.text,
               x.hop, x.task_id, x.run_id, x.refers_to, ${at}
        FROM input, jsonb_to_recordset(j->'messages') AS x(id text, seq bigint, kind text, company_id text,
             author_kind text, author_id text, author_name text, text text, hop int, task_id text, run_id text,
             refers_to text)
      ),
      new_addressees AS (
        INSERT INTO message_addressees (message_id, agent_id, room_id, seq)
        SELECT x.message_id, x.agent_id, ${this.roomId}, x.seq
        FROM input, jsonb_to_recordset(j->'addressees') AS x(message_id text, agent_id text, seq bigint)
      ),
      new_tasks AS (
        INSERT INTO tasks (id, room_id, card_message_id, sender_kind, sender_id, sender_name, sender_company_id,
                           recipient_agent_id, goal, acceptance_criteria, priority, deadline, memory_refs,
                           attachments, run_id, created_at)
        SELECT x.id, ${this.roomId}, x.card_message_id, x.sender_kind, x.sender_id, x.sender_name,
               x.sender_company_id, x.recipient_agent_id, x.goal, x.acceptance_criteria, x.priority, x.deadline,
               x.memory_refs, x.attachments, x.run_id, ${at}
        FROM input, jsonb_to_recordset(j->'tasks') AS x(id text, card_message_id text, sender_kind text,
             sender_id text, sender_name text, sender_company_id text, recipient_agent_id text, goal text,
             acceptance_criteria text[], priority text, deadline text, memory_refs text[], attachments text[],
             run_id text)
      ),
      new_memory AS (
        INSERT INTO memory_entries (id, room_id, company_id, author_kind, author_id, author_name, category, tags,
                                    content, visibility, run_id, created_at)
        SELECT x.id, ${this.roomId}, x.company_id, x.author_kind, x.author_id, x.author_name, x.category, x.tags,
               x.content, x.visibility, x.run_id, ${at}
        FROM input, jsonb_to_recordset(j->'memory') AS x(id text, company_id text, author_kind text, author_id text,
             author_name text, category text, tags text[], content text, visibility text, run_id text)
      ),
      new_wakes AS (
        INSERT INTO wakes (id, agent_id, message_id, room_id, company_id, task_id, hop, state, reason, created_at)
        SELECT x.id, x.agent_id, x.message_id, ${this.roomId}, x.company_id, x.task_id, x.hop, x.state, x.reason,
               ${at}
        FROM input, jsonb_to_recordset(j->'wakes') AS x(id text, agent_id text, message_id text, company_id text,
             task_id text, hop int, state text, reason text)
      )
      SELECT CASE WHEN ${pending} THEN pg_notify(${WAKES_CHANNEL}, '')::text END`;
  }
}

function authorColumns(author: Author): Record<string, string> {
  return { company_id: author.companyId, author_kind: author.kind, author_id: author.id, author_name: author.name };
}
