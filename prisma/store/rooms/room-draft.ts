// The rows that a transaction adds to a room, for a batch of the API or a step of a run. They are staged first and written
// at the end: the room's row is locked last, for one statement, so that numbers follow the order of commits.

import type { MemoryCategory, MemoryVisibility, SuppressedReason, TaskPriority } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';
import type { PipelineTx, SqlTx } from '../db/transaction';
import { newId } from '../db/ids';
import { observe } from './observations';
import type { RoomEventType } from './room-event-types';
import { notifyAfterCommit } from '../db/notifications';
import { declareLock } from '../db/lock-order';
import { currentTraceparent } from '../db/trace-context';

/** The channel that notifies dispatchers of pending wakes. A hint: the table is the truth. */
export const WAKES_CHANNEL = 'durable_room_wakes';

/** The author of an event, with its name at that time. */
export interface Author {
  readonly kind: 'person' | 'service' | 'agent';
  readonly id: string;
  readonly name: string;
  readonly companyId: string;
}

export interface NewEvent {
  readonly type: RoomEventType;
  /** Null: the room itself. */
  readonly author: Author | null;
  /** The company that the event concerns, if the author is null. */
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
  /** Every addressed agent, always-on or not. */
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
  /** Not null: the wake is suppressed from the start. */
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

/** The number and time of an appended event. */
export interface AppendedEvent {
  readonly id: string;
  readonly seq: bigint;
  readonly at: Date;
}

/** Rows to add to one room. Staging sends no statement; `append` writes all rows. */
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

  /** Stages a message of an event, with the wakes that it causes. */
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
   * Writes everything staged and returns the events' numbers and times, in the order in which they were staged.
   *
   * One statement, in the caller's transaction. It assigns numbers and reads the clock under the room's row lock, so that
   * neither seq nor time decreases within a room. No statement after it may take another lock. A staged resource without a
   * creation time gets the time of its event.
   */
  async append(tx: SqlTx): Promise<AppendedEvent[]> {
    if (this.isEmpty) return [];
    declareLock(tx, 'room');
    const appended = await tx.$queryRaw<AppendedEvent[]>(this.statement());
    if (appended.length !== this.events.length) throw new Error('room events were appended to no room');
    this.reportAppended(tx);
    const byId = new Map(appended.map(({ id, seq, at }) => [id, { id, seq, at }]));
    return this.events.map((event) => byId.get(event.id) as AppendedEvent);
  }

  /** As `append`, followed directly by COMMIT. Only for the room of a run: a foreign key guarantees that it exists. */
  appendAndCommit(tx: PipelineTx): void {
    if (this.isEmpty) return;
    declareLock(tx, 'room');
    tx.$pipeline(this.statement());
    this.reportAppended(tx);
  }

  private statement(): Prisma.Sql {
    const rows = this.rows();
    // A notification takes a lock at commit, so it is sent only if a wake is pending.
    const pending = this.wakes.some((wake) => wake.reason === null);
    return Prisma.sql`
      WITH input AS MATERIALIZED (SELECT ${JSON.stringify(rows)}::jsonb AS j),
      room AS (
        UPDATE rooms SET last_seq = last_seq + ${rows.events.length} WHERE id = ${this.roomId}
        RETURNING id, last_seq - ${rows.events.length} AS base, clock_ms() AS at
      ),
      appended AS (
        INSERT INTO room_events (room_id, seq, id, type, company_id, author_kind, author_id, author_name, subject_id, data, at)
        SELECT room.id, room.base + n, e->>'id', e->>'type', e->>'company_id', e->>'author_kind', e->>'author_id',
               e->>'author_name', e->>'subject_id',
               CASE WHEN e->'data'->'created_at' = 'null'
                 THEN e->'data' || jsonb_build_object('created_at',
                   to_char(room.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
                 ELSE e->'data' END,
               room.at
        FROM room, input, jsonb_array_elements(j->'events') WITH ORDINALITY AS x(e, n)
        RETURNING id, seq, at
      ),
      new_messages AS (
        INSERT INTO messages (id, room_id, seq, kind, company_id, author_kind, author_id, author_name, text, hop,
                              task_id, run_id, refers_to, created_at)
        SELECT x.id, ${this.roomId}, a.seq, x.kind, x.company_id, x.author_kind, x.author_id, x.author_name, x.text,
               x.hop, x.task_id, x.run_id, x.refers_to, a.at
        FROM input, jsonb_to_recordset(j->'messages') AS x(id text, event_id text, kind text, company_id text,
             author_kind text, author_id text, author_name text, text text, hop int, task_id text, run_id text,
             refers_to text)
        JOIN appended a ON a.id = x.event_id
      ),
      new_addressees AS (
        INSERT INTO message_addressees (message_id, agent_id, room_id, seq)
        SELECT x.message_id, x.agent_id, ${this.roomId}, a.seq
        FROM input, jsonb_to_recordset(j->'addressees') AS x(message_id text, agent_id text, event_id text)
        JOIN appended a ON a.id = x.event_id
      ),
      new_tasks AS (
        INSERT INTO tasks (id, room_id, card_message_id, sender_kind, sender_id, sender_name, sender_company_id,
                           recipient_agent_id, goal, acceptance_criteria, priority, deadline, memory_refs,
                           attachments, run_id, created_at)
        SELECT x.id, room.id, x.card_message_id, x.sender_kind, x.sender_id, x.sender_name,
               x.sender_company_id, x.recipient_agent_id, x.goal, x.acceptance_criteria, x.priority, x.deadline,
               x.memory_refs, x.attachments, x.run_id, room.at
        FROM room, input, jsonb_to_recordset(j->'tasks') AS x(id text, card_message_id text, sender_kind text,
             sender_id text, sender_name text, sender_company_id text, recipient_agent_id text, goal text,
             acceptance_criteria text[], priority text, deadline text, memory_refs text[], attachments text[],
             run_id text)
      ),
      new_memory AS (
        INSERT INTO memory_entries (id, room_id, company_id, author_kind, author_id, author_name, category, tags,
                                    content, visibility, run_id, created_at)
        SELECT x.id, room.id, x.company_id, x.author_kind, x.author_id, x.author_name, x.category, x.tags,
               x.content, x.visibility, x.run_id, room.at
        FROM room, input, jsonb_to_recordset(j->'memory') AS x(id text, company_id text, author_kind text,
             author_id text, author_name text, category text, tags text[], content text, visibility text,
             run_id text)
      ),
      new_wakes AS (
        INSERT INTO wakes (id, agent_id, message_id, room_id, company_id, task_id, hop, state, reason, traceparent,
                           created_at)
        SELECT x.id, x.agent_id, x.message_id, room.id, x.company_id, x.task_id, x.hop, x.state, x.reason,
               j->>'traceparent', room.at
        FROM room, input, jsonb_to_recordset(j->'wakes') AS x(id text, agent_id text, message_id text,
             company_id text, task_id text, hop int, state text, reason text)
      )
      SELECT id, seq, at, CASE WHEN ${pending} THEN pg_notify(${WAKES_CHANNEL}, '')::text END AS notified
      FROM appended`;
  }

  private reportAppended(tx: SqlTx): void {
    notifyAfterCommit(tx, this.roomId);
    for (const { type, data } of this.events) {
      observe({ kind: 'room_event', type });
      if (type === 'run_ended') observe({ kind: 'run_ended', ending: String(data['ending']) });
    }
    for (const { reason } of this.wakes)
      observe(reason === null ? { kind: 'wake_pending' } : { kind: 'wake_suppressed', reason });
  }

  // The staged rows, as the columns of their tables.
  private rows() {
    return {
      events: this.events.map((event) => ({
        id: event.id,
        type: event.type,
        company_id: event.author?.companyId ?? event.companyId ?? null,
        author_kind: event.author?.kind ?? 'system',
        author_id: event.author?.id ?? null,
        author_name: event.author?.name ?? null,
        subject_id: event.subjectId,
        data: event.data,
      })),
      messages: this.messages.map((message) => ({
        id: message.id,
        event_id: message.eventId,
        kind: message.kind,
        ...authorColumns(message.author),
        text: message.text,
        hop: message.hop,
        task_id: message.taskId,
        run_id: message.runId,
        refers_to: message.refersTo,
      })),
      addressees: this.messages.flatMap((message) =>
        message.addressees.map((agentId) => ({
          message_id: message.id,
          agent_id: agentId,
          event_id: message.eventId,
        })),
      ),
      tasks: this.tasks.map((task) => ({
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
      })),
      memory: this.memory.map((entry) => ({
        id: entry.id,
        ...authorColumns(entry.author),
        category: entry.category,
        tags: entry.tags,
        content: entry.content,
        visibility: entry.visibility,
        run_id: entry.runId,
      })),
      traceparent: this.wakes.length === 0 ? null : currentTraceparent(),
      wakes: this.wakes.map((wake) => ({
        id: wake.id,
        agent_id: wake.agentId,
        message_id: wake.messageId,
        company_id: wake.companyId,
        task_id: wake.taskId,
        hop: wake.hop,
        state: wake.reason === null ? 'pending' : 'suppressed',
        reason: wake.reason,
      })),
    };
  }
}

function authorColumns(author: Author): Record<string, string> {
  return { company_id: author.companyId, author_kind: author.kind, author_id: author.id, author_name: author.name };
}
