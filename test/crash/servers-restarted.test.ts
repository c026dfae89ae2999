// PostgreSQL or the Temporal server goes away and comes back on its files while runs stand at their points, and the worker
// goes on as if nothing had been: nothing is done twice, and every run ends. The servers are this file's own.

import { runCrashBatch, type CrashBatch, type CrashFault } from '../support/crash-faults';
import type { CrashOutcome } from '../support/crash-outcome';
import type { CrashPoint } from '../support/crash-points';
import { startCrashServers, type CrashServers } from '../support/crash-servers';
import type { CrashCase } from '../support/crash-runs';
import { startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { endWorkers } from '../support/worker-processes';
import { ON_CRASH, type Ending } from '../../workflows/contract';
import { CLI_CACHE } from '../../worker/local/project-root';

/** A transaction that stands, one that is done and not reported, and a request that is under way. */
const POINTS: readonly CrashPoint[] = ['postReply:inside', 'writeMemory:committed', 'callModel:sent'];
const CASES: readonly CrashCase[] = ON_CRASH.flatMap((onCrash) => POINTS.map((point) => ({ point, onCrash })));

/** What ends otherwise than with everything done: a transaction that a dying server took with it, where one attempt is all. */
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
  // Until the file is over: its environment is changed back then.
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

  test.each(CASES)('$point, on_crash $onCrash: as promised', (each) => {
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
