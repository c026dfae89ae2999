// The first read of a run: the newest rows of its room that its agent may see. The search for older relevant rows is in
// relevance.ts.

import { Prisma } from '../../generated/client';

/** The most rows of each kind that one run reads, newest first. */
export const VIEW_LIMITS = { messages: 50, tasks: 20, memory: 100, roster: 200, files: 20 } as const;

export interface ViewedMessage {
  readonly id: string;
  readonly seq: number;
  readonly kind: string;
  readonly company: string;
  readonly author: string;
  readonly author_kind: string;
  readonly author_id: string;
  readonly at: string;
  readonly text: string;
}

export interface ViewedTask {
  readonly id: string;
  readonly company: string;
  readonly sender: string;
  readonly goal: string;
  readonly acceptance_criteria: readonly string[];
  readonly priority: string;
  readonly deadline: string | null;
  readonly state: string;
  readonly at: string;
  readonly memory_refs: readonly string[];
  readonly attachments: readonly { readonly id: string; readonly name: string; readonly state: string }[];
}

export interface ViewedMemory {
  readonly id: string;
  readonly company: string;
  readonly author: string;
  readonly category: string;
  readonly tags: readonly string[];
  readonly content: string;
  readonly visibility: string;
  readonly at: string;
}

export interface ViewedFile {
  readonly id: string;
  readonly company: string;
  readonly author: string;
  readonly name: string;
  readonly state: string;
  readonly at: string;
}

/** A passage of a file, with the facts that a citation needs. */
export interface ViewedPassage {
  readonly id: string;
  readonly file: string;
  readonly file_name: string;
  readonly company: string;
  readonly author: string;
  readonly at: string;
  readonly page: number | null;
  readonly line: number | null;
  readonly text: string;
}

export interface RoomView {
  readonly room: { readonly id: string; readonly name: string };
  readonly agent: {
    readonly id: string;
    readonly slug: string;
    readonly name: string;
    readonly company: string;
    readonly instructions: string;
  };
  /** The message that woke the run. */
  readonly waking: ViewedMessage;
  /** The newest messages, oldest first. An older waking message comes before them. */
  readonly messages: readonly ViewedMessage[];
  readonly tasks: readonly ViewedTask[];
  /** The newest entries, oldest first. */
  readonly memory: readonly ViewedMemory[];
  /** Older entries that match the waking message, or that an open task refers to, best first. */
  readonly found_memory: readonly ViewedMemory[];
  /** Passages that match the waking message, and passages of files attached to open tasks, best first. */
  readonly passages: readonly ViewedPassage[];
  /** The newest files, oldest first. */
  readonly files: readonly ViewedFile[];
  readonly roster: readonly { readonly slug: string; readonly name: string; readonly company: string }[];
}

/** The newest rows of a room, and whether it has passages to search. */
export type NewestOfRoom = Omit<RoomView, 'found_memory' | 'passages'> & { readonly has_passages: boolean };

/** The run for which a room is read. */
export interface ReadingRun<Value = string> {
  readonly roomId: Value;
  readonly agentId: Value;
  readonly companyId: Value;
  readonly messageId: Value;
}

/** @throws Error if the run has no room, agent, company or message: a read without a tenant must not read all tenants */
export function assertReader(run: ReadingRun<unknown>): void {
  for (const id of [run.roomId, run.agentId, run.companyId, run.messageId]) {
    if (!id) throw new Error('a room is read for one run of one company');
  }
}

/** A memory entry `e` of the company `c`, as a run sees it. */
export const MEMORY_JSON = Prisma.sql`
  json_build_object('id', e.id, 'company', c.name, 'author', e.author_name, 'category', e.category, 'tags', e.tags,
    'content', e.content, 'visibility', e.visibility, 'at', e.created_at)`;

/** A message `m` of the company `c`, as a run sees it. */
const MESSAGE_JSON = Prisma.sql`
  json_build_object('id', m.id, 'seq', m.seq, 'kind', m.kind, 'company', c.name, 'author', m.author_name,
    'author_kind', m.author_kind, 'author_id', m.author_id, 'at', m.created_at, 'text', m.text)`;

/**
 * The read of a room for one run, as a sub-select that returns one `NewestOfRoom`. The run is given by values, or by columns
 * of the outer statement that are never null.
 *
 * Private memory is read only if the agent's company allowed it for this agent in this room.
 * @throws Error as `assertReader`
 */
export function roomView(run: ReadingRun | ReadingRun<Prisma.Sql>): Prisma.Sql {
  assertReader(run);
  return Prisma.sql`
    WITH newest AS MATERIALIZED (
      SELECT m.seq, ${MESSAGE_JSON} AS j
      FROM messages m JOIN companies c ON c.id = m.company_id
      WHERE m.room_id = ${run.roomId} ORDER BY m.seq DESC LIMIT ${VIEW_LIMITS.messages}
    ), waking AS MATERIALIZED (
      SELECT m.seq, ${MESSAGE_JSON} AS j
      FROM messages m JOIN companies c ON c.id = m.company_id
      WHERE m.id = ${run.messageId} AND m.room_id = ${run.roomId}
    ), viewed AS (
      SELECT seq, j FROM newest
      UNION ALL SELECT seq, j FROM waking WHERE seq < (SELECT min(seq) FROM newest)
    )
    SELECT json_build_object(
      'room', json_build_object('id', r.id, 'name', r.name),
      'agent', json_build_object('id', a.id, 'slug', a.slug, 'name', a.name, 'company', ac.name,
                                  'instructions', a.instructions),
      'waking', (SELECT j FROM waking),
      'messages', (SELECT coalesce(json_agg(j ORDER BY seq), '[]') FROM viewed),
      'tasks', (SELECT coalesce(json_agg(t.j ORDER BY t.id), '[]') FROM (
        SELECT t.id, json_build_object('id', t.id, 'company', c.name, 'sender', t.sender_name, 'goal', t.goal,
          'acceptance_criteria', t.acceptance_criteria, 'priority', t.priority, 'deadline', t.deadline,
          'state', t.state, 'at', t.created_at, 'memory_refs', t.memory_refs, 'attachments', (
            SELECT coalesce(json_agg(json_build_object('id', f.id, 'name', f.name, 'state', f.state) ORDER BY f.id), '[]')
            FROM files f WHERE f.id = ANY(t.attachments) AND f.room_id = t.room_id)) AS j
        FROM tasks t JOIN companies c ON c.id = t.sender_company_id
        WHERE t.recipient_agent_id = ${run.agentId} AND t.room_id = ${run.roomId}
          AND t.state IN ('pending', 'in_progress')
        ORDER BY t.id DESC LIMIT ${VIEW_LIMITS.tasks}) t),
      'memory', (SELECT coalesce(json_agg(e.j ORDER BY e.id), '[]') FROM (
        SELECT e.id, ${MEMORY_JSON} AS j
        FROM (
          (SELECT * FROM memory_entries WHERE room_id = ${run.roomId} AND visibility = 'shared' AND deprecated_at IS NULL
           ORDER BY id DESC LIMIT ${VIEW_LIMITS.memory})
          UNION ALL
          (SELECT * FROM memory_entries WHERE room_id = ${run.roomId} AND visibility = 'private'
             AND company_id = ${run.companyId} AND ra.private_memory AND deprecated_at IS NULL
           ORDER BY id DESC LIMIT ${VIEW_LIMITS.memory})
        ) e JOIN companies c ON c.id = e.company_id
        ORDER BY e.id DESC LIMIT ${VIEW_LIMITS.memory}) e),
      'files', (SELECT coalesce(json_agg(f.j ORDER BY f.id), '[]') FROM (
        SELECT f.id, json_build_object('id', f.id, 'company', c.name, 'author', f.author_name, 'name', f.name,
          'state', f.state, 'at', f.created_at) AS j
        FROM files f JOIN companies c ON c.id = f.company_id
        WHERE f.room_id = ${run.roomId} ORDER BY f.id DESC LIMIT ${VIEW_LIMITS.files}) f),
      -- The order makes Postgres use the room's index: an EXISTS may scan the rows of other rooms.
      'has_passages', (SELECT p.id FROM passages p WHERE p.room_id = ${run.roomId} ORDER BY p.id LIMIT 1) IS NOT NULL,
      'roster', (SELECT coalesce(json_agg(o.j ORDER BY o.added_at), '[]') FROM (
        SELECT x.added_at, json_build_object('slug', oa.slug, 'name', oa.name, 'company', oc.name) AS j
        FROM room_agents x JOIN agents oa ON oa.id = x.agent_id JOIN companies oc ON oc.id = oa.company_id
        WHERE x.room_id = ${run.roomId} AND x.removed_at IS NULL LIMIT ${VIEW_LIMITS.roster}) o)
    )
    FROM rooms r
    JOIN agents a ON a.id = ${run.agentId} AND a.company_id = ${run.companyId}
    JOIN companies ac ON ac.id = a.company_id
    JOIN room_agents ra ON ra.room_id = r.id AND ra.agent_id = a.id
    WHERE r.id = ${run.roomId}`;
}
