// PostgreSQL or the Temporal server stops and starts again on its files while runs are held at their crash points. The
// worker continues: no step acts twice, and every run ends. This file has its own servers.

import { runCrashBatch, type CrashBatch, type CrashFault } from '../support/crash-faults';
import type { CrashOutcome } from '../support/crash-outcome';
import type { CrashPoint } from '../support/crash-points';
import { startCrashServers, type CrashServers } from '../support/crash-servers';
import type { CrashCase } from '../support/crash-runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers } from '../support/worker-processes';
import { ON_CRASH, type Ending } from '../../workflows/contract';
import { CLI_CACHE } from '../../worker/local/project-root';

/** An open transaction, a committed transaction without an answer to Temporal, and an open model request. */
const POINTS: readonly CrashPoint[] = ['postReply:inside', 'writeMemory:committed', 'callModel:sent'];
const CASES: readonly CrashCase[] = ON_CRASH.flatMap((onCrash) => POINTS.map((point) => ({ point, onCrash })));

/** The points where a run does not reply: the server loses the open transaction, and `stop` allows one attempt. */
const SHORT: Partial<Record<CrashFault, CrashPoint>> = {
  postgres_stopped: 'postReply:inside',
  postgres_killed: 'postReply:inside',
};

let model: ScriptedModel;
let servers: CrashServers;

beforeAll(async () => {
  model = await startScriptedModel();
  servers = await startCrashServers({
    cliCacheDir: CLI_CACHE,
    temporalCliPath: process.env['TEMPORAL_CLI_PATH'],
    log: () => undefined,
  });
  // The environment is restored at the end of the file.
  process.env['TEST_DATABASE_URL_BASE'] = servers.databaseUrl;
  process.env['TEST_TEMPORAL_ADDRESS'] = servers.temporalAddress;
});
afterAll(async () => {
  await endWorkers();
  await servers?.stop();
  await model?.stop();
});

describe.each(['postgres_stopped', 'postgres_killed', 'temporal_killed'] as const)('%s', (fault) => {
  let batch: CrashBatch;

  beforeAll(async () => {
    batch = await runCrashBatch({ fault, cases: CASES, model, servers });
  });

  test.each(CASES)('$point, on_crash $onCrash: the run has the expected outcome', (each) => {
    const outcome = batch.outcomes[CASES.indexOf(each)] as CrashOutcome;
    expect(outcome.why).toEqual([]);
    const isShort = each.onCrash === 'stop' && each.point === SHORT[fault];
    const ending: Ending = isShort ? 'failed' : 'replied';
    expect(outcome).toMatchObject({ ending, code: isShort ? 'outcome_unknown' : null, fenced: 0 });
    expect(outcome.requests).toEqual({ ledger: ['answered'], sent: 1 });
    const done = isShort ? 0 : 1;
    expect(outcome.effects).toEqual({ replies: done, memory: done, responses: done, tasks: done });
  });
});
