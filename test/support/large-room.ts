// Fills a room of any size by direct inserts, for tests that the cost of reads does not depend on the size of a room.

import type pg from 'pg';

export interface RoomSize {
  readonly messages: number;
  readonly memory: number;
  readonly passages: number;
}

/** SQL for a text: some words are in every line, some in few lines, and one word is in a single line. `i` is the line number. */
const TEXT = `'the plan for part ' || i || ' of the ' || (ARRAY['tower','blade','crane','gearbox','foundation'])[1 + i % 5]
  || ' needs inspection' || CASE WHEN i % 30 = 0 THEN ' urgently' ELSE '' END
  || CASE WHEN i % 300 = 0 THEN ' before winter' ELSE '' END || ' item' || i::bigint * 7919 % 100003`;

/** SQL for the id of a row that `fillRoom` writes: prefix, room and line number. */
function rowId(prefix: string, roomId: string): string {
  return `'${prefix}_' || right('${roomId}', 8) || lpad(i::text, 18, '0')`;
}

/** Adds past runs of an agent to a filled room: each of the first `count` messages woke the agent, and it replied. */
export async function fillRuns(
  client: Pick<pg.Client, 'query'>,
  room: { readonly id: string; readonly companyId: string; readonly agentId: string },
  count: number,
): Promise<void> {
  const id = (prefix: string): string => rowId(prefix, room.id);
  const rows = `FROM generate_series(1, ${count}) AS s(i)`;
  const past = `clock_timestamp() - interval '1 day'`;
  await client.query(`
    INSERT INTO wakes (id, agent_id, message_id, room_id, company_id, hop, state, delivered_at, started_at, claimed_at)
    SELECT ${id('wake')}, '${room.agentId}', ${id('msg')}, '${room.id}', '${room.companyId}', 0, 'claimed',
           ${past}, ${past}, ${past} ${rows}`);
  await client.query(`
    INSERT INTO agent_run_locks (agent_id, message_id, run_id, workflow_id, temporal_run_id)
    SELECT '${room.agentId}', ${id('msg')}, ${id('run')}, ${id('workflow')}, ${id('execution')} ${rows}`);
  await client.query(`
    INSERT INTO runs (id, agent_id, message_id, room_id, company_id, wake_id, workflow_id, temporal_run_id, state, on_crash,
                      hop, time_limit_ms, claimed_at, closed_at, ending, due_at)
    SELECT ${id('run')}, '${room.agentId}', ${id('msg')}, '${room.id}', '${room.companyId}', ${id('wake')},
           ${id('workflow')}, ${id('execution')}, 'closed', 'stop', 1, 300000, ${past}, ${past}, 'replied', ${past} ${rows}`);
  await client.query(`
    INSERT INTO model_requests (run_id, number, outcome, ended_at)
    SELECT ${id('run')}, 1, 'answered', ${past} ${rows}`);
  await client.query(`
    INSERT INTO run_steps (run_id, step_key, position, kind, state, effect_id)
    SELECT ${id('run')}, 'reply', 0, 'reply', 'done', ${id('msg')} ${rows}`);
  for (const table of ['wakes', 'agent_run_locks', 'runs', 'model_requests', 'run_steps'])
    await client.query(`VACUUM ANALYZE ${table}`);
}

/** Fills an empty room with events, messages, memory entries and the passages of one file, in the numbers of `size`. */
export async function fillRoom(
  client: Pick<pg.Client, 'query'>,
  room: { readonly id: string; readonly companyId: string },
  size: RoomSize,
): Promise<void> {
  const by = `'${room.companyId}', 'person', 'key_filler', 'Ada'`;
  const id = (prefix: string): string => rowId(prefix, room.id);
  const rows = (count: number): string => `FROM generate_series(1, ${count}) AS s(i)`;
  await client.query(`
    INSERT INTO room_events (room_id, seq, id, type, company_id, author_kind, author_id, author_name, subject_id, data)
    SELECT '${room.id}', i, ${id('evt')}, 'message', ${by}, ${id('msg')},
           jsonb_build_object('id', ${id('msg')}, 'text', ${TEXT}) ${rows(size.messages)}`);
  await client.query(`
    INSERT INTO messages (room_id, seq, id, kind, company_id, author_kind, author_id, author_name, text, hop)
    SELECT '${room.id}', i, ${id('msg')}, 'text', ${by}, ${TEXT}, 0 ${rows(size.messages)}`);
  await client.query(`UPDATE rooms SET last_seq = ${size.messages} WHERE id = '${room.id}'`);
  await client.query(`
    INSERT INTO memory_entries (room_id, id, company_id, author_kind, author_id, author_name, category, content, visibility)
    SELECT '${room.id}', ${id('mem')}, ${by}, 'fact', ${TEXT}, 'shared' ${rows(size.memory)}`);
  const file = `file_${room.id.slice(5)}`;
  await client.query(`
    INSERT INTO files (id, room_id, company_id, author_kind, author_id, author_name, name, media_type, size_bytes, sha256,
                       state, parsed_at)
    VALUES ('${file}', '${room.id}', ${by}, 'plan.txt', 'text/plain', 1, 'x', 'ready', clock_timestamp())`);
  await client.query(`
    INSERT INTO passages (id, file_id, room_id, number, text, line, start)
    SELECT ${id('psg')}, '${file}', '${room.id}', i, ${TEXT}, i, 0 ${rows(size.passages)}`);
  for (const table of ['room_events', 'messages', 'memory_entries', 'passages', 'files'])
    await client.query(`VACUUM ANALYZE ${table}`);
}
