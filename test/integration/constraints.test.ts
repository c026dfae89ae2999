// What the database itself refuses: a value outside a closed set, a row that contradicts itself, any change of a claim.
// A CHECK without a case here fails the test, so every CHECK is tried.

import pg from 'pg';
import { MODEL_REQUESTS_LIMIT } from '../../workflows/contract';
import { CLOSED_SETS } from '../support/closed-sets';
import { createTestDatabase, type TestDatabase } from '../support/database';
import { ANSWERED, CLOSED, decided, inDays, NOW, UNIQUE, VALID, type Row } from '../support/valid-rows';

let database: TestDatabase;
let client: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase({ migrated: true });
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  for (const [table, row] of Object.entries(VALID)) await insert(table, row);
  await insert('companies', { ...VALID['companies'], id: 'company_guest', slug: 'guest' });
  await insert('agents', { ...VALID['agents'], id: 'agent_guest', slug: 'guest' });
  await insert('model_keys', { ...VALID['model_keys'], id: 'mkey_other' });
});
afterAll(async () => {
  await client.end();
  await database.drop();
});
beforeEach(() => client.query('BEGIN'));
afterEach(() => client.query('ROLLBACK'));

async function insert(table: string, row: Row): Promise<void> {
  const columns = Object.keys(row);
  await client.query(
    `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map((_, i) => `$${i + 1}`).join(', ')})`,
    Object.values(row),
  );
}

/** Inserts the table's valid row with other values in the unique columns and in the changed columns. */
async function insertVariant(table: string, changes: Row): Promise<void> {
  const row = { ...VALID[table], ...UNIQUE[table], ...changes };
  if (table === 'runs') await insert('agent_run_locks', { ...VALID['agent_run_locks'], ...UNIQUE['agent_run_locks'] });
  await insert(table, row);
}

async function refusal(changing: Promise<unknown>): Promise<string | undefined> {
  try {
    await changing;
    return undefined;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === '23514') return error.constraint;
    throw error;
  }
}

const LONG = 'x'.repeat(201);

/** Every other CHECK, with rows that it refuses. */
const REFUSED: Readonly<Record<string, readonly Row[]>> = {
  files_name_is_short: [{ name: 'x'.repeat(501) }],
  files_name_exactly_unless_redacted: [{ name: '' }, { redacted_at: NOW }],
  files_size_is_not_negative: [{ size_bytes: -1 }],
  files_code_exactly_when_unreadable: [{ code: 'binary' }, { state: 'unreadable', parsed_at: NOW }],
  files_parsed_at_exactly_unless_processing: [{ parsed_at: NOW }, { state: 'ready' }],
  files_attempts_count_up: [{ attempts: -1 }],
  passages_number_counts_from_one: [{ number: 0 }],
  passages_have_a_page_or_a_line: [{ page: 1 }, { line: null }],
  companies_slug_fits_its_index: [{ slug: '' }, { slug: 'x'.repeat(65) }],
  companies_name_is_short: [{ name: '' }, { name: LONG }],
  api_keys_role_exactly_for_persons: [{ role: 'admin' }, { kind: 'person' }],
  api_keys_operator_exactly_without_company: [{ kind: 'operator' }, { company_id: null }],
  api_keys_agent_exactly_for_agent_keys: [{ kind: 'agent' }, { agent_id: 'agent_1' }],
  api_keys_name_is_short: [{ name: LONG }],
  model_keys_version_counts_from_one: [{ version: 0 }],
  model_keys_rejected_version_existed: [{ version: 2, rejected_version: 3 }, { rejected_version: 0 }],
  model_keys_name_is_short: [{ name: LONG }],
  api_keys_operator_never_expires: [{ kind: 'operator', company_id: null, expires_at: NOW }],
  model_key_tests_version_counts_from_one: [{ version: 0 }],
  model_key_tests_attempts_at_most_three: [{ attempts: -1 }, { attempts: MODEL_REQUESTS_LIMIT + 1 }],
  model_key_tests_running_only_attempted: [{ state: 'running' }],
  model_key_tests_code_exactly_when_failed: [{ code: 'unknown' }, { state: 'failed', tested_at: NOW }],
  model_key_tests_tested_at_exactly_when_over: [{ tested_at: NOW }, { state: 'ok' }],
  agents_slug_fits_its_index: [{ slug: 'x'.repeat(65) }],
  agents_name_is_short: [{ name: LONG }],
  rooms_slug_fits_its_index: [{ slug: 'x'.repeat(65) }],
  rooms_name_is_short: [{ name: LONG }],
  rooms_hop_limit_is_bounded: [{ hop_limit: -1 }, { hop_limit: 65 }],
  rooms_run_allowance_is_not_overdrawn: [{ run_allowance: -1 }],
  rooms_last_seq_counts_up: [{ last_seq: -1 }],
  invitations_redeemed_by_someone_sometime: [{ redeemed_by: 'company_1' }, { redeemed_at: NOW }],
  roster_names_fold_fits_its_index: [{ name_fold: '' }, { name_fold: 'é'.repeat(1025) }],
  room_events_seq_counts_from_one: [{ seq: 0 }],
  room_events_author_exactly_unless_system: [{ author_id: null }, { author_kind: 'system' }],
  messages_seq_counts_from_one: [{ seq: 0 }],
  messages_hop_counts_up: [{ hop: -1 }],
  messages_task_exactly_for_cards: [{ task_id: 'task_1' }, { kind: 'task_card' }, { kind: 'response_card' }],
  tasks_result_exactly_when_answered: [{ result: 'done' }, { ...ANSWERED, result: null }],
  tasks_response_card_exactly_when_answered: [
    { response_message_id: 'msg_3' },
    { ...ANSWERED, response_message_id: null },
  ],
  tasks_responded_at_exactly_when_answered: [{ responded_at: NOW }, { ...ANSWERED, responded_at: null }],
  tasks_verdict_only_on_an_answer: [
    { verdict: 'accepted', verdict_at: NOW },
    { state: 'in_progress', verdict: 'rejected', verdict_at: NOW },
  ],
  tasks_verdict_at_exactly_with_verdict: [
    { ...ANSWERED, verdict: 'accepted' },
    { ...ANSWERED, verdict_at: NOW },
  ],
  tasks_verdict_note_only_with_verdict: [{ ...ANSWERED, verdict_note: 'why' }],
  wakes_hop_counts_up: [{ hop: -1 }],
  wakes_reason_exactly_when_suppressed: [{ reason: 'paused' }, { state: 'suppressed' }],
  wakes_delivered_at_exactly_once_delivered: [
    { delivered_at: NOW },
    { state: 'delivered' },
    { state: 'claimed', claimed_at: NOW },
    { state: 'suppressed', reason: 'paused', delivered_at: NOW },
  ],
  wakes_started_only_once_delivered: [{ started_at: NOW }],
  wakes_claimed_at_exactly_when_claimed: [
    { state: 'claimed', delivered_at: NOW },
    { state: 'delivered', delivered_at: NOW, claimed_at: NOW },
  ],
  runs_ending_exactly_when_closed: [{ ending: 'replied' }, { ...CLOSED, ending: null }],
  runs_closed_at_exactly_when_closed: [{ closed_at: NOW }, { ...CLOSED, closed_at: null }],
  runs_hop_is_above_a_message: [{ hop: 0 }],
  runs_time_limit_is_positive: [{ time_limit_ms: 0 }],
  runs_model_key_version_counts_from_one: [{ model_key_version: 0 }],
  runs_context_erased_when_closed: [{ ...CLOSED, context: '{}' }],
  runs_reply_has_its_hash: [{ reply: '{}' }],
  runs_rights_exactly_with_a_reply: [{ rights: '{}' }, { reply: '{}', reply_sha256: 'ab' }],
  runs_fenced_count_counts_up: [{ fenced_count: -1 }],
  runs_parked_ms_counts_up: [{ parked_ms: -1 }],
  held_actions_key_is_of_its_kind: [{ step_key: 'reply' }, { step_key: `memory:${'1'.repeat(64)}` }],
  held_actions_decision_fits_its_state: [
    { state: 'approved' },
    { state: 'executed' },
    { state: 'failed' },
    { state: 'declined' },
    ...['held', 'expired', 'declined'].map((state) => ({ state, ...decided('approve') })),
    ...['approved', 'executed', 'failed', 'superseded', 'expired'].map((state) => ({ state, ...decided('decline') })),
  ],
  held_actions_decided_by_exactly_with_a_decision: [
    { decided_by: 'key_1' },
    { state: 'approved', ...decided('approve'), decided_by: null },
  ],
  held_actions_decider_has_a_name: [
    { decided_by_name: 'Ada' },
    { state: 'approved', ...decided('approve'), decided_by_name: null },
  ],
  held_actions_decided_at_exactly_with_a_decision: [
    { decided_at: NOW },
    { state: 'approved', ...decided('approve'), decided_at: null },
  ],
  held_actions_expire_within_90_days: [{ expires_at: NOW }, { expires_at: inDays(91) }, { expires_at: 'infinity' }],
  held_action_changes_number_counts_from_one: [{ number: 0 }, { number: -1 }],
  held_actions_sha256_is_one: [{ sha256: '' }, { sha256: 'AB'.repeat(32) }],
  run_signals_action_exactly_for_decisions: [{ held_action_id: 'held_1' }, { kind: 'decision' }],
  run_steps_key_is_of_its_kind: [{ step_key: 'reply' }, { step_key: `memory:${'1'.repeat(64)}` }],
  run_steps_position_is_bounded: [{ position: -1 }, { position: 101 }],
  model_requests_number_at_most_three: [{ number: 0 }, { number: MODEL_REQUESTS_LIMIT + 1 }],
  model_requests_ended_at_exactly_unless_in_flight: [{ ended_at: NOW }, { outcome: 'answered' }],
  stored_answers_only_success_is_kept: [{ status: 199 }, { status: 300 }, { status: 503 }],
  stored_answers_body_is_known_by_its_sha256: [{ body_sha256: Buffer.alloc(31) }],
  audit_entries_actor_company_exactly_unless_operator: [{ actor_company_id: null }, { actor_kind: 'operator' }],
  companies_tokens_per_day_is_no_debt: [{ tokens_per_day: -1 }],
  wakes_traceparent_is_w3c: [{ traceparent: 'x' }, { traceparent: `00-${'A'.repeat(32)}-${'0'.repeat(16)}-01` }],
  agents_tokens_per_day_is_no_debt: [{ tokens_per_day: -1 }],
  agents_tokens_per_run_is_positive: [{ tokens_per_run: 0 }],
  token_reservations_reserved_is_positive: [{ reserved: 0 }],
  token_reservations_settled_is_no_debt: [{ settled: -1, settled_at: NOW }],
  token_reservations_settled_at_exactly_when_settled: [{ settled: 1 }, { settled_at: NOW }],
};

/** Valid rows that resemble a refused row. */
const ACCEPTED: readonly (readonly [what: string, table: string, row: Row])[] = [
  ['an open run with its context', 'runs', { context: '{}' }],
  ['a stored reply', 'runs', { reply: '{}', reply_sha256: 'ab', rights: '{}' }],
  ['a redacted reply', 'runs', { reply: null, reply_sha256: 'ab', rights: '{}' }],
  [
    'a wake claimed before its start was acknowledged',
    'wakes',
    { state: 'claimed', delivered_at: NOW, claimed_at: NOW },
  ],
  ['a started wake without a claim', 'wakes', { state: 'delivered', delivered_at: NOW, started_at: NOW }],
  ['a name fold of the greatest length', 'roster_names', { name_fold: 'ﷺ'.repeat(682) }],
  ['a slug of the greatest length', 'companies', { slug: 'ﷺ'.repeat(64) }],
  ['the last refused version', 'model_keys', { version: 2, rejected_version: 2 }],
  ['a redacted result', 'tasks', ANSWERED],
  ['a redacted action', 'held_actions', { action: null }],
  ['a change that no reader has numbered', 'held_action_changes', { number: null }],
  ['an allowed action whose run ended', 'held_actions', { state: 'superseded', ...decided('approve') }],
];

function tableOf(constraint: string): string {
  const table = Object.keys(VALID)
    .filter((name) => constraint.startsWith(`${name}_`))
    .sort((a, b) => b.length - a.length)[0];
  if (table === undefined) throw new Error(`${constraint} does not begin with the name of a table`);
  return table;
}

test('every CHECK has a case here, and every case has a CHECK', async () => {
  const { rows } = await client.query<{ name: string }>(
    `SELECT conname AS name FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace`,
  );
  const cases = [...CLOSED_SETS.map(({ constraint }) => constraint), ...Object.keys(REFUSED)];
  expect(rows.length).toBeGreaterThan(60);
  expect(rows.map(({ name }) => name).sort()).toEqual(cases.sort());
});

describe.each(CLOSED_SETS)('$constraint', ({ constraint, column, values, with: others = () => ({}) }) => {
  const table = tableOf(constraint);

  test('lists exactly the values of the code', async () => {
    const { rows } = await client.query<{ definition: string }>(
      `SELECT pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conname = $1`,
      [constraint],
    );
    const held = [...(rows[0]?.definition ?? '').matchAll(/'([^']*)'/g)].map((match) => match[1]);
    expect(held.sort()).toEqual([...values].sort());
  });

  test('accepts each value', async () => {
    for (const value of values) {
      await client.query('SAVEPOINT before');
      await insertVariant(table, { ...others(value), [column]: value });
      await client.query('ROLLBACK TO before');
    }
  });

  test.each(['unheard_of', '', values[0]?.toUpperCase() ?? ''])('refuses %p', async (foreign) => {
    expect(await refusal(insertVariant(table, { ...others(foreign), [column]: foreign }))).toBe(constraint);
  });
});

test.each(Object.entries(REFUSED).flatMap(([constraint, rows]) => rows.map((row) => [constraint, row] as const)))(
  '%s refuses %p',
  async (constraint, row) => {
    expect(await refusal(insertVariant(tableOf(constraint), row))).toBe(constraint);
  },
);

test.each(ACCEPTED)('accepted: %s', async (_, table, row) => {
  await insertVariant(table, row);
});

test('a run closes in one statement, which must also remove its context', async () => {
  await client.query(`UPDATE runs SET context = '{}' WHERE id = 'run_1'`);
  await client.query('SAVEPOINT before');
  const close = `UPDATE runs SET state = 'closed', ending = 'silent', closed_at = now()`;
  expect(await refusal(client.query(close))).toBe('runs_context_erased_when_closed');
  await client.query('ROLLBACK TO before');
  await client.query(`${close}, context = NULL`);
});

test('a company that has keys cannot be deleted', async () => {
  await insertVariant('companies', {});
  await insertVariant('api_keys', { company_id: 'company_2' });
  await expect(client.query(`DELETE FROM companies WHERE id = 'company_2'`)).rejects.toMatchObject({
    constraint: 'api_keys_company_id_fkey',
  });
});

describe('a claim', () => {
  const CLAIM = { agent_id: 'agent_1', message_id: 'msg_1', run_id: 'run_1' };
  const claims = async (): Promise<unknown[]> =>
    (await client.query('SELECT agent_id, message_id, run_id FROM agent_run_locks')).rows;

  test.each([
    `UPDATE agent_run_locks SET temporal_run_id = 'another'`,
    `UPDATE agent_run_locks SET claimed_at = claimed_at`,
    `DELETE FROM agent_run_locks`,
    `TRUNCATE agent_run_locks CASCADE`,
    `INSERT INTO agent_run_locks (agent_id, message_id, run_id, workflow_id)
       VALUES ('agent_1', 'msg_1', 'run_9', 'w') ON CONFLICT (agent_id, message_id) DO UPDATE SET run_id = 'run_9'`,
    `MERGE INTO agent_run_locks USING (SELECT 1) one ON true WHEN MATCHED THEN DELETE`,
  ])('cannot be changed: %s', async (statement) => {
    await client.query('SAVEPOINT before');
    await expect(client.query(statement)).rejects.toMatchObject({
      code: '55000',
      message: expect.stringMatching(
        /^(UPDATE|DELETE|TRUNCATE) on agent_run_locks refused: a claim is never updated, never deleted, never released$/,
      ) as unknown,
    });
    await client.query('ROLLBACK TO before');
    expect(await claims()).toEqual([CLAIM]);
  });

  test('cannot be changed in a replica session either', async () => {
    await client.query('SET LOCAL session_replication_role = replica');
    await expect(client.query('DELETE FROM agent_run_locks')).rejects.toThrow(/never deleted/);
  });

  test('outlives its run, its room and its company', async () => {
    await client.query('TRUNCATE runs CASCADE');
    expect(await claims()).toEqual([CLAIM]);
    await client.query('TRUNCATE companies CASCADE');
    expect((await client.query('SELECT FROM rooms')).rowCount).toBe(0);
    expect(await claims()).toEqual([CLAIM]);
  });

  test('is unchanged by a second insert, which is no error', async () => {
    const { rowCount } = await client.query(
      `INSERT INTO agent_run_locks (agent_id, message_id, run_id, workflow_id)
       VALUES ('agent_1', 'msg_1', 'run_9', 'w') ON CONFLICT (agent_id, message_id) DO NOTHING`,
    );
    expect(rowCount).toBe(0);
    expect(await claims()).toEqual([CLAIM]);
  });
});

describe('each query of a loop uses its partial index', () => {
  test.each([
    [
      'wakes_pending_of_company',
      `SELECT id FROM wakes WHERE state = 'pending' AND company_id = 'company_1' AND due_at <= now()
       ORDER BY due_at LIMIT 50`,
    ],
    [
      'wakes_delivered_due',
      `SELECT id FROM wakes WHERE state = 'delivered' AND due_at <= now() ORDER BY due_at LIMIT 50`,
    ],
    ['runs_open_due', `SELECT id FROM runs WHERE state = 'open' AND due_at <= now() ORDER BY due_at LIMIT 50`],
    [
      'tasks_open_of_recipient',
      `SELECT * FROM tasks WHERE recipient_agent_id = 'agent_1' AND room_id = 'room_1'
         AND state IN ('pending', 'in_progress') ORDER BY id`,
    ],
    [
      'held_action_changes_unnumbered',
      `SELECT id FROM held_action_changes WHERE company_id = 'company_1' AND number IS NULL ORDER BY id LIMIT 50`,
    ],
  ])('%s', async (index, sql) => {
    await client.query('SET LOCAL enable_seqscan = off');
    await client.query('SET LOCAL enable_sort = off');
    const { rows } = await client.query<Record<'QUERY PLAN', string>>(`EXPLAIN ${sql}`);
    expect(rows.map((row) => row['QUERY PLAN']).join('\n')).toContain(index);
  });
});
