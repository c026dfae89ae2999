// Each kind of step in a real database: the columns and constraints that list the kinds, and the redaction of its texts.

import type { Database } from '../../prisma/store/db/database';
import { redact } from '../../prisma/store/lifecycle/redaction';
import { decideHeldAction } from '../../prisma/store/runs/held-actions/decide';
import { STEP_KINDS, type StepKind } from '../../workflows/contract';
import { STEP_RULES } from '../../workflows/policy/steps';
import { heldOf, setRights } from '../support/held-actions';
import { DECLARED_BY_KIND, DECLARED_TEXT } from '../support/step-kinds';
import { activitiesOf, repliedRun, type OpenRun } from '../support/store-runs';
import { createWorld, type World } from '../support/world';

let world: World;
beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
});
afterAll(() => world.close());

test('the constraints that list step kinds contain exactly the kinds of the contract', async () => {
  const constraints = await world.db.$queryRaw<{ name: string; definition: string }[]>`
    SELECT conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
    WHERE contype = 'c' AND connamespace = 'public'::regnamespace`;
  const listing = constraints.filter(({ definition }) => definition.includes(`'${STEP_KINDS.at(-1)}'`));
  expect(listing.map(({ name }) => name).sort()).toEqual(['held_actions_kind_is_known', 'run_steps_kind_is_known']);
  for (const { definition } of listing) {
    expect([...definition.matchAll(/'(\w+)'/g)].map(([, kind]) => kind)).toEqual(STEP_KINDS);
  }
});

test('a roster row has a constrained right column for each step kind', async () => {
  const columns = await world.db.$queryRaw<{ name: string }[]>`
    SELECT column_name AS name FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name = 'room_agents' AND column_name LIKE 'right\_%'
    ORDER BY ordinal_position`;
  expect(columns.map(({ name }) => name)).toEqual(STEP_KINDS.map((kind) => `right_${kind}`));
  const constraints = await world.db.$queryRaw<{ name: string }[]>`
    SELECT conname AS name FROM pg_constraint
    WHERE contype = 'c' AND conname LIKE 'room_agents_right_%' ORDER BY oid`;
  expect(constraints.map(({ name }) => name)).toEqual(STEP_KINDS.map((kind) => `room_agents_right_${kind}_is_known`));
});

/** The tables that hold the text, in any column. */
async function tablesWith(db: Database, text: string): Promise<string[]> {
  const tables = await db.$queryRaw<{ name: string }[]>`
    SELECT table_name AS name FROM information_schema.tables
    WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`;
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await db.prisma.$queryRawUnsafe<{ n: number }[]>(
      `SELECT count(*)::int AS n FROM "${name}" t WHERE t::text LIKE '%' || $1 || '%'`,
      text,
    );
    if ((rows[0]?.n ?? 0) > 0) found.push(name);
  }
  return found;
}

/** A run whose reply declares one step of this kind. A task update answers the task that woke the run. */
async function runDeclaring(kind: StepKind): Promise<OpenRun> {
  if (kind !== 'task_update') return repliedRun(world, DECLARED_BY_KIND[kind]);
  const [update] = DECLARED_BY_KIND.task_update.task_updates;
  const run = await repliedRun(world, { task_updates: [update] }, { task: true });
  const { taskId } = await world.db.message.findUniqueOrThrow({ where: { id: run.messageId } });
  await world.db.$executeRaw`
    UPDATE runs SET reply = jsonb_set(reply, '{task_updates,0,task}', to_jsonb(${taskId}::text)) WHERE id = ${run.id}`;
  return run;
}

/** The id that a person redacts after a step of this kind: the effect of the step, or the card that shows it. */
async function subjectOf(run: OpenRun): Promise<string> {
  const card = await world.db.message.findFirst({ where: { runId: run.id } });
  const { effectId } = await world.db.runStep.findFirstOrThrow({ where: { runId: run.id } });
  return card?.id ?? (effectId as string);
}

describe.each(STEP_KINDS)('a redaction of what a %s step wrote', (kind) => {
  test.each([
    ['without a hold', false],
    ['after a hold', true],
  ])('erases every text from the stored reply, %s', async (_, held) => {
    await setRights(world, held ? { [kind]: 'hold' } : {});
    const run = await runDeclaring(kind);
    const [step] = await stepKeysOf(run, held);
    const activities = activitiesOf(world, run.execution);
    expect(await activities[STEP_RULES[kind].activity]({ run: run.id, step: step! })).toMatchObject({ state: 'done' });
    expect(await tablesWith(world.db, DECLARED_TEXT)).toContain('runs');

    const subject = await subjectOf(run);
    await world.db.transaction((tx) => redact(tx, world.roomId, world.host.person, subject));
    expect(await tablesWith(world.db, DECLARED_TEXT)).toEqual([]);
    const { reply } = await world.db.run.findUniqueOrThrow({ where: { id: run.id } });
    expect(Object.keys(reply as object)).toEqual(expect.arrayContaining(Object.keys(DECLARED_BY_KIND[kind])));
  });

  /** The key of the run's only step, approved if it is held. */
  async function stepKeysOf(run: OpenRun, held: boolean): Promise<string[]> {
    if (!held) return [STEP_RULES[kind].count === 'one' ? kind : `${kind}:1`];
    await activitiesOf(world, run.execution).openHeldActions({ run: run.id });
    const actions = [...(await heldOf(world, run.id)).values()];
    const { id: keyId, name, companyId } = world.host.person;
    for (const { id, sha256: hash } of actions) {
      await world.db.transaction((tx) =>
        decideHeldAction(tx, { keyId, name, companyId }, id, { decision: 'approve', hash }),
      );
    }
    return actions.map((action) => action.stepKey);
  }
});
