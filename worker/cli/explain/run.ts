// The command `explain`: prints what happened to a run, from the ledger, the room and Temporal's history; writes the history
// to a file; replays it against this code. Needs DATABASE_URL, and Temporal while Temporal still has the history.

import { writeFile } from 'node:fs/promises';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { connectDatabase } from '../../../prisma/client';
import { NotFound } from '../../../prisma/store/db/errors';
import { readDataConverter } from '../../temporal/data-converter';
import { NO_HISTORIES, openHistories, type HistoryReading } from '../../temporal/histories';
import { readTemporalSettings, type Environment } from '../../temporal/settings';
import { loadTimeline } from '../../temporal/timeline';
import type { RunCommand } from '../commands';
import { namesTemporal, toolEnvironment } from '../tool-environment';
import { printTimeline, type PrintedTimeline } from './print';
import { replayHistory } from './replay';

interface ExplainOptions {
  readonly run: string;
  readonly json: boolean;
  readonly historyFile: string | undefined;
  readonly replay: boolean;
}

export const runExplain: RunCommand = async ({ env, values, positionals: [run = ''] }) => {
  const { history } = values;
  const historyFile = typeof history === 'string' ? history : undefined;
  const options = { run, json: values['json'] === true, historyFile, replay: values['replay'] === true };
  return explain(options, await toolEnvironment(env));
};

async function explain(options: ExplainOptions, env: Environment): Promise<number> {
  const databaseUrl = env['DATABASE_URL'];
  if (!databaseUrl) return fail(1, 'DATABASE_URL is not set, and no embedded PostgreSQL is running here');
  const database = await connectDatabase(databaseUrl, {
    poolSize: 2,
    statementTimeoutMs: 10_000,
    lockTimeoutMs: 5_000,
    transactionTimeoutMs: 10_000,
    applicationName: 'durable-room explain',
  });
  const converter = await readDataConverter(env);
  const histories = namesTemporal(env) ? openHistories(readTemporalSettings(env), converter) : NO_HISTORIES;
  try {
    const { resource, reading } = await loadTimeline(database.prisma, histories, null, options.run);
    const timeline = resource as unknown as PrintedTimeline;
    console.log(options.json ? JSON.stringify(resource, null, 2) : printTimeline(timeline));
    if (reading.state === 'unreachable') console.error(reading.why);
    return await useHistory(options, env, reading);
  } catch (error) {
    if (error instanceof NotFound) return fail(1, `there is no run ${options.run}`);
    throw error;
  } finally {
    await histories.close();
    await database.close();
  }
}

/** Writes and replays the history, where the options ask for that. */
async function useHistory(options: ExplainOptions, env: Environment, reading: HistoryReading): Promise<number> {
  if (options.historyFile === undefined && !options.replay) return 0;
  if (reading.state !== 'read') return fail(1, 'there is no history to write or to replay');
  if (options.historyFile !== undefined) {
    await writeFile(options.historyFile, `${historyToJSON(reading.history)}\n`);
    console.error(`history written to ${options.historyFile}`);
  }
  if (!options.replay) return 0;
  Runtime.install({
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} },
    telemetryOptions: { logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'ERROR' }) } },
  });
  const workflowId = reading.history.events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId ?? options.run;
  const outcome = await replayHistory(reading.history, workflowId, await readDataConverter(env));
  if (outcome.replays) {
    console.error(`this code (build ${outcome.buildId}) replays it: it makes the same decisions`);
    return 0;
  }
  return fail(3, `this code (build ${outcome.buildId}) does not replay it: ${outcome.difference}`);
}

function fail(code: number, message: string): number {
  console.error(message);
  return code;
}
