// What a run reads: the room as it stands, through the eyes of one agent and its company.

import { Prisma } from '../generated/client';

/** Most rows of each kind that one run reads, newest first. */
export const VIEW_LIMITS = { messages: 50, tasks: 20, memory: 100, roster: 200 } as const;

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
  /** Oldest first, the waking message among them if it is recent enough. */
  readonly messages: readonly ViewedMessage[];
  readonly tasks: readonly ViewedTask[];
  readonly memory: readonly ViewedMemory[];
  readonly roster: readonly { readonly slug: string; readonly name: string; readonly company: string }[];
}

/**
 * The read of a room for one run, as a sub-select that gives one `RoomView`: it rides in the statement that asks for it.
 *
 * Private memory of the agent's own company is read only where that company switched it on for this agent here.
 * @throws Error when the run names no room, agent or company: a read without a tenant must never mean all tenants.
 */
export function roomView(run: { roomId: string; agentId: string; companyId: string; messageId: string }): Prisma.Sql {
  for (const id of [run.roomId, run.agentId, run.companyId, run.messageId]) {
    if (!id) throw new Error('a room is read for one run of one company');
  }
  return Prisma.sql`
    WITH messages_read AS (
      (SELECT m.* FROM messages m WHERE m.room_id = ${run.roomId} ORDER BY m.seq DESC LIMIT ${VIEW_LIMITS.messages})
      UNION
      (SELECT m.* FROM messages m WHERE m.id = ${run.messageId} AND m.room_id = ${run.roomId})
    ), viewed AS (
      SELECT m.id, m.seq, jsonb_build_object('id', m.id, 'seq', m.seq, 'kind', m.kind, 'company', c.name,
        'author', m.author_name, 'author_kind', m.author_kind, 'author_id', m.author_id, 'at', m.created_at,
        'text', m.text) AS j
      FROM messages_read m JOIN companies c ON c.id = m.company_id
    )
    SELECT jsonb_build_object(
      'room', jsonb_build_object('id', r.id, 'name', r.name),
      'agent', jsonb_build_object('id', a.id, 'slug', a.slug, 'name', a.name, 'company', ac.name,
                                  'instructions', a.instructions),
      'waking', (SELECT j FROM viewed WHERE id = ${run.messageId}),
      'messages', (SELECT coalesce(jsonb_agg(j ORDER BY seq), '[]') FROM viewed),
      'tasks', (SELECT coalesce(jsonb_agg(t.j ORDER BY t.id), '[]') FROM (
        SELECT t.id, jsonb_build_object('id', t.id, 'company', c.name, 'sender', t.sender_name, 'goal', t.goal,
          'acceptance_criteria', t.acceptance_criteria, 'priority', t.priority, 'deadline', t.deadline,
          'state', t.state, 'at', t.created_at) AS j
        FROM tasks t JOIN companies c ON c.id = t.sender_company_id
        WHERE t.recipient_agent_id = ${run.agentId} AND t.room_id = ${run.roomId}
          AND t.state IN ('pending', 'in_progress')
        ORDER BY t.id DESC LIMIT ${VIEW_LIMITS.tasks}) t),
      'memory', (SELECT coalesce(jsonb_agg(e.j ORDER BY e.id), '[]') FROM (
        SELECT e.id, jsonb_build_object('id', e.id, 'company', c.name, 'author', e.author_name,
          'category', e.category, 'tags', e.tags, 'content', e.content, 'visibility', e.visibility,
          'at', e.created_at) AS j
        FROM memory_entries e JOIN companies c ON c.id = e.company_id
        WHERE e.room_id = ${run.roomId} AND e.deprecated_at IS NULL
          AND (e.visibility = 'shared' OR (e.company_id = ${run.companyId} AND ra.private_memory))
        ORDER BY e.id DESC LIMIT ${VIEW_LIMITS.memory}) e),
      'roster', (SELECT coalesce(jsonb_agg(o.j ORDER BY o.added_at), '[]') FROM (
        SELECT x.added_at, jsonb_build_object('slug', oa.slug, 'name', oa.name, 'company', oc.name) AS j
        FROM room_agents x JOIN agents oa ON oa.id = x.agent_id JOIN companies oc ON oc.id = oa.company_id
        WHERE x.room_id = ${run.roomId} AND x.removed_at IS NULL LIMIT ${VIEW_LIMITS.roster}) o)
    )
    FROM rooms r
    JOIN agents a ON a.id = ${run.agentId} AND a.company_id = ${run.companyId}
    JOIN companies ac ON ac.id = a.company_id
    JOIN room_agents ra ON ra.room_id = r.id AND ra.agent_id = a.id
    WHERE r.id = ${run.roomId}`;
}
