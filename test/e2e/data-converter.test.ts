// A custom data converter: workers, clients and readers of histories use the module that TEMPORAL_DATA_CONVERTER names.
// A wrong module is an error at the start.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readDataConverter } from '../../worker/temporal/data-converter';
import { openHistories } from '../../worker/temporal/histories';
import { readTemporalSettings } from '../../worker/temporal/settings';
import { loadTimeline } from '../../worker/temporal/timeline';
import { wakeWorkflowId } from '../../workflows/contract';
import { replayHistory } from '../../worker/cli/explain/replay';
import { readableExecution } from '../support/histories-read';
import { failingIn } from '../support/faults';
import { closedRun, startTestWorker, temporalAddress, type TestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers, forkWorker, workerEnv } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';
import { COMPILED } from '../support/compiled';

const MODULE = join(__dirname, '..', 'support', 'encrypting-converter.ts');
const CONVERTER = join(COMPILED, 'test', 'support', 'encrypting-converter.js');

let folder: string;
let model: ScriptedModel;
let world: World;
let worker: TestWorker;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'durable-room-converter-'));
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  const dataConverter = await readDataConverter({ TEMPORAL_DATA_CONVERTER: MODULE });
  if (dataConverter === undefined) throw new Error('the module was not read');
  const unreachable = (): Error => Object.assign(new Error('gone'), { code: 'ECONNRESET' });
  worker = await startTestWorker(world, {
    dataConverter,
    deps: { db: failingIn(world.db, 'writeMemory', unreachable) },
  });
});
afterAll(async () => {
  await endWorkers();
  await worker.stop();
  await world.close();
  await model.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Runs a wake whose reply is posted and whose memory step fails, and returns the run. */
async function partialRun() {
  model.script(
    answer.reply({ reply: 'Done.', memory: { category: 'fact', content: 'x', tags: [], visibility: 'shared' } }),
  );
  const posted = await world.post('@scribe please');
  const run = await closedRun(world.db, posted.messageId);
  const workflowId = wakeWorkflowId(world.scribe.id, posted.messageId);
  await worker.client.workflow.getHandle(workflowId).result();
  return run;
}

test('with an encrypting converter no payload of a history is readable, including failure messages', async () => {
  const run = await partialRun();
  expect(run.ending).toBe('partial');
  const text = await readableExecution(worker.client, run.workflowId);
  // Workflow ids and search attributes do not pass through a converter.
  expect(text).toContain(run.agentId);
  for (const plain of ['granted', '"onCrash"', 'task_send', 'Transient: ', run.id]) {
    expect(text).not.toContain(plain);
  }
  expect(text).toContain('binary/encrypted');
});

test('timeline and replay decode with the same converter; without it the timeline names the payloads that it cannot read', async () => {
  const run = await partialRun();
  const settings = readTemporalSettings({ TEMPORAL_ADDRESS: temporalAddress() });
  const converter = await readDataConverter({ TEMPORAL_DATA_CONVERTER: MODULE });
  const histories = openHistories(settings, converter);
  const { resource, reading } = await loadTimeline(world.db, histories, null, run.id);
  expect(JSON.stringify(resource)).toContain('claimMessage (claim) answers: granted');
  if (reading.state !== 'read') throw new Error(`the history is ${reading.state}`);
  expect(await replayHistory(reading.history, run.workflowId, converter)).toMatchObject({ replays: true });
  await histories.close();

  const without = openHistories(settings, undefined);
  const blind = await loadTimeline(world.db, without, null, run.id);
  expect(JSON.stringify(blind.resource)).toContain('its payload needs the data converter it was written with');
  expect(blind.resource).toMatchObject({ ending: 'partial', history: { state: 'read' } });
  await without.close();
});

test('a worker process uses the module that its environment names', async () => {
  const queue = 'with-a-converter';
  const process = forkWorker({ ...workerEnv(world, queue), TEMPORAL_DATA_CONVERTER: CONVERTER });
  await process.ready;
  await worker.stop();
  model.script('Hello.');
  const posted = await world.post('@scribe again');
  const run = await closedRun(world.db, posted.messageId);
  expect(run.ending).toBe('replied');
  const histories = openHistories(readTemporalSettings({ TEMPORAL_ADDRESS: temporalAddress() }), undefined);
  const reading = await histories.read(run);
  expect(JSON.stringify(reading)).toContain('needs the data converter');
  await histories.close();
  await process.kill();
  worker = await startTestWorker(world, { dispatch: false });
});

test.each([
  ['that does not exist', null, /which can't be loaded/],
  ['that throws', 'throw new Error("broken inside")', /can't be loaded: broken inside/],
  ['that exports no converter', 'exports.codec = {}', /exports none of payloadConverterPath/],
  ['whose codecs lack encode and decode', 'exports.payloadCodecs = [{}]', /is not a list of \{encode, decode\}/],
  [
    'whose payload converter file does not exist',
    'exports.payloadConverterPath = "/nowhere/x.js"',
    /can't convert: Could not find a file/,
  ],
  [
    'that changes payloads',
    'exports.payloadCodecs = [{ encode: async (p) => p, decode: async (p) => p.map((x) => ({ ...x, data: Buffer.from("{}") })) }]',
    /does not decode what it encoded/,
  ],
])('a module %s causes an error that names the variable', async (_, source, expected) => {
  const file = join(folder, `converter-${Math.random().toString(36).slice(2)}.js`);
  if (source !== null) await writeFile(file, source);
  const reading = readDataConverter({ TEMPORAL_DATA_CONVERTER: file });
  await expect(reading).rejects.toThrow(/TEMPORAL_DATA_CONVERTER/);
  await expect(reading).rejects.toThrow(expected);
});

test('a module may export its converter by name, as its default, or as `dataConverter`', async () => {
  for (const [name, source] of Object.entries({
    named: 'exports.payloadCodecs = [];',
    default: 'exports.default = { payloadCodecs: [] };',
    dataConverter: 'exports.dataConverter = { payloadCodecs: [] };',
  })) {
    const file = join(folder, `${name}.js`);
    await writeFile(file, source);
    expect(await readDataConverter({ TEMPORAL_DATA_CONVERTER: file })).toEqual({ payloadCodecs: [] });
  }
  expect(await readDataConverter({})).toBeUndefined();
});
