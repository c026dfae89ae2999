// Checks docs/temporal.md against a real server with the Temporal CLI: `temporal workflow show` of a successful run and of a
// run whose worker was killed, and the list queries.

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findTemporalCli } from '../../worker/local/temporal-cli';
import { newId } from '../../prisma/store/db/ids';
import { closedRun, startTestWorker, temporalAddress, until, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers, forkCrashWorker, forkWorker, workerEnv } from '../support/worker-processes';
import { createWorld, type TestAgent, type World } from '../support/world';

const ROOT = join(__dirname, '..', '..');
const DOCUMENT = readFileSync(join(ROOT, 'docs', 'temporal.md'), 'utf8');
const execute = promisify(execFile);

const WITH_MEMORY = answer.reply({
  reply: 'Done.',
  memory: { category: 'fact', content: 'It is done.', tags: [], visibility: 'shared' },
});

interface Run {
  readonly id: string;
  readonly workflowId: string;
}

let cli: string;
let model: ScriptedModel;
let world: World;
/** Runs of one room, by their ending. */
let replied: Run;
let killed: Run;
let refused: Run;
let open: Run;
let terminated: Run;
let worker: TestWorker;

beforeAll(async () => {
  cli = (await findTemporalCli({ cacheDir: join(ROOT, '.durable-room', 'cache'), log: () => undefined })).path;
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  killed = await killedRun();
  worker = await startTestWorker(world, { timeouts: { limitMs: 600_000, modelMs: 300_000, heartbeatMs: 15_000 } });
  replied = await runOf(world.scribe, answer.reply('Hello.'));
  refused = await runOf(world.scout, answer.error(401, 'invalid_api_key'));
  await world.addAgent({ slug: 'waiting' });
  terminated = await runThatWaits();
  await worker.client.workflow.getHandle(terminated.workflowId).terminate();
  open = await runThatWaits();
});
afterAll(async () => {
  await worker.client.workflow.getHandle(open.workflowId).terminate();
  await worker.stop();
  await endWorkers();
  await world.close();
  await model.stop();
});

async function runOf(agent: TestAgent, scripted: ReturnType<typeof answer.reply>): Promise<Run> {
  model.script(scripted);
  const posted = await world.post(`@${agent.slug} hello`);
  return closedRun(world.db, posted.messageId);
}

async function runThatWaits(): Promise<Run> {
  model.script(answer.hold());
  const { messageId } = await world.post('@waiting hello');
  return until('the claim', () => world.db.run.findFirst({ where: { messageId } }));
}

/** A worker dies inside the second acting step, and another worker closes the run. */
async function killedRun(): Promise<Run> {
  const env = { ...workerEnv(world, `document-${newId('run')}`), RUN_STEP_TIMEOUT_SECONDS: '2' };
  const dying = forkCrashWorker(env, { points: ['writeMemory:inside'], action: 'kill' });
  await dying.ready;
  model.script(WITH_MEMORY);
  const posted = await world.post('@scribe hello');
  await dying.ended;
  const successor = forkWorker(env);
  await successor.ready;
  const run = await closedRun(world.db, posted.messageId, world.scribe.id);
  expect(run.ending).toBe('partial');
  await until('the workflow to end', async () => (await shown(run)).includes('WorkflowExecutionCompleted'));
  await successor.kill();
  return run;
}

async function temporal(...args: string[]): Promise<string> {
  const { stdout } = await execute(cli, [...args, '--address', temporalAddress(), '--color', 'never']);
  return stdout;
}

const shown = ({ workflowId }: Run): Promise<string> =>
  temporal('workflow', 'show', '--detailed', '--workflow-id', workflowId);

/** The lines of every fenced block in the document that contains this text. */
function blocksWith(text: string): string[][] {
  const blocks = DOCUMENT.split('```').filter((_, index) => index % 2 === 1);
  return blocks.filter((block) => block.includes(text)).map((block) => block.trim().split('\n'));
}

/** The line without what differs between runs: ids, times, event numbers and the width of columns. */
function withoutIds(line: string): string {
  return (
    line
      .replaceAll(/\b(room|run|msg|agent|wake|co|mem)_[0-9a-z]{26}/g, '$1_…')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replaceAll(/"?[0-9a-f]{64}"?/g, 'SHA256')
      // The second worker may find a workflow task that waits for the first worker, which adds events.
      .replace(/^(-+) \[\d+\]/, '$1 [n]')
      .replaceAll(/\s+/g, ' ')
      .trim()
  );
}

/** Fails unless every line of the block, except the command and `…`, is a line of the output, in this order. */
function expectShows(block: readonly string[], output: string): void {
  const lines = output.split('\n').map(withoutIds);
  let from = 0;
  for (const line of block.filter((each) => !/^\s*(…|\$ .*)\s*$/.test(each))) {
    const wanted = withoutIds(line);
    const at = lines.findIndex((each, index) => index >= from && each === wanted);
    if (at < 0) throw new Error(`the document shows\n  ${wanted}\nwhich is not in the rest of\n${lines.join('\n')}`);
    from = at + 1;
  }
}

test('`temporal workflow show` of a successful run prints the block of docs/temporal.md', async () => {
  const [block] = blocksWith('"ending":"replied"');
  expect(block?.length).toBeGreaterThan(5);
  expectShows(block ?? [], await shown(replied));
});

test('`temporal workflow show` of a run whose worker was killed prints the block of docs/temporal.md', async () => {
  const [block] = blocksWith('"ending":"partial"');
  expect(block?.length).toBeGreaterThan(5);
  expectShows(block ?? [], await shown(killed));
});

test('the data of the Web UI contains the summary of the run, a summary of each activity and the current details', async () => {
  const handle = worker.client.workflow.getHandle(replied.workflowId);
  expect(await (await handle.describe()).staticSummary()).toMatch(/^wake wake_/);
  const metadata = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
  expect(metadata.currentDetails).toBe(`replied · ${replied.id}`);
  expect(await handle.query('state')).toEqual({ run: replied.id, at: 'reply' });
  const { events } = await handle.fetchHistory();
  const summaries = (events ?? [])
    .filter((event) => event.activityTaskScheduledEventAttributes)
    .map((event) => Buffer.from(event.userMetadata?.summary?.data ?? []).toString('utf8'));
  expect(summaries).toEqual(['"claim"', '"model call"', '"reply"']);
});

test('the check of a block fails if the output lacks one of its lines', async () => {
  await expect(async () => expectShows(['1 TIME WorkflowExecutionFailed'], await shown(replied))).rejects.toThrow(
    /which is not in/,
  );
});

/** A part of each list query in the document, and the runs that the query finds. */
const QUERIES: readonly (readonly [string, () => Run[]])[] = [
  ["RunEnding NOT IN ('replied','silent')", () => [killed, refused, terminated]],
  ["ExecutionStatus='Running'", () => [open]],
  ["RunEnding='refused'", () => [refused]],
  ["AgentId='agent_…'", () => [replied, killed]],
];

test.each(QUERIES)('the list query with %s finds those runs and no others', async (part, expected) => {
  const commands = DOCUMENT.split('\n').filter(
    (line) => line.startsWith('temporal workflow list') && line.includes(part),
  );
  expect(commands).toHaveLength(1);
  const query = /--query "([^"]+)"/.exec(commands[0] ?? '')?.[1] ?? '';
  const filled = query
    .replace('room_…', world.roomId)
    .replace('agent_…', world.scribe.id)
    .replace('co_…', world.guest.id)
    .replace(/\d{4}-\d\d-\d\dT00:00:00Z/, `${new Date(Date.now() - 3_600_000).toISOString().slice(0, 10)}T00:00:00Z`);
  expect(filled).not.toContain('…');
  const wanted = expected()
    .map((run) => run.workflowId)
    .sort();
  await until(`${part} to be listed`, async () => {
    const json = JSON.parse(await temporal('workflow', 'list', '--query', filled, '--output', 'json')) as {
      execution: { workflowId: string };
    }[];
    const found = json.map((each) => each.execution.workflowId).sort();
    return JSON.stringify(found) === JSON.stringify(wanted);
  });
});

test('docs/temporal.md has no other list query', () => {
  const commands = DOCUMENT.split('\n').filter((line) => line.startsWith('temporal workflow list'));
  expect(commands).toHaveLength(QUERIES.length);
});
