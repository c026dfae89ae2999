// `npm run explain -- <run>`: what happened to a run, from the ledger and the history; its history as a file; and whether
// this code would do the same again. Needs DATABASE_URL, and Temporal for as long as Temporal remembers.
//
//   exit 0  explained, and replayed where asked     1  no such run, or no history to write or replay
//        2  called wrongly                          3  this code does not replay the history

import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { connectDatabase } from '../../../prisma/client';
import { NotFound } from '../../../prisma/store/db/errors';
import { readDataConverter } from '../../temporal/data-converter';
import { NO_HISTORIES, openHistories, type HistoryReading } from '../../temporal/histories';
import { readTemporalSettings, type Environment } from '../../temporal/settings';
import { loadTimeline } from '../../temporal/timeline';
import { namesTemporal, toolEnvironment } from '../tool-environment';
import { printTimeline, type PrintedTimeline } from './print';
import { replayHistory } from './replay';

const USAGE = 'usage: npm run explain -- <run> [--json] [--history FILE] [--replay]';

interface Arguments {
  readonly run: string;
  readonly json: boolean;
  readonly historyFile: string | undefined;
  readonly replay: boolean;
}

function readArguments(): Arguments | null {
  try {
    const options = { json: { type: 'boolean' }, history: { type: 'string' }, replay: { type: 'boolean' } } as const;
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    const [run, ...more] = positionals;
    if (run === undefined || more.length > 0) return null;
    return { run, json: values.json === true, historyFile: values.history, replay: values.replay === true };
  } catch {
    return null;
  }
}

async function main(): Promise<number> {
  const args = readArguments();
  if (args === null) return complain(2, USAGE);
  const env = await toolEnvironment(process.env);
  const databaseUrl = env['DATABASE_URL'];
  if (!databaseUrl) return complain(1, 'DATABASE_URL is not set, and no embedded PostgreSQL is running here');
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
    const { resource, reading } = await loadTimeline(database, histories, null, args.run);
    console.log(args.json ? JSON.stringify(resource, null, 2) : printTimeline(resource as unknown as PrintedTimeline));
    if (reading.state === 'unreachable') console.error(reading.why);
    return await withHistory(args, env, reading);
  } catch (error) {
    if (error instanceof NotFound) return complain(1, `there is no run ${args.run}`);
    throw error;
  } finally {
    await histories.close();
    await database.close();
  }
}

async function withHistory(args: Arguments, env: Environment, reading: HistoryReading): Promise<number> {
  if (args.historyFile === undefined && !args.replay) return 0;
  if (reading.state !== 'read') return complain(1, 'there is no history to write or to replay');
  if (args.historyFile !== undefined) {
    await writeFile(args.historyFile, `${historyToJSON(reading.history)}\n`);
    console.error(`history written to ${args.historyFile}`);
  }
  if (!args.replay) return 0;
  Runtime.install({
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} },
    telemetryOptions: { logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'ERROR' }) } },
  });
  const workflowId = reading.history.events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId ?? args.run;
  const outcome = await replayHistory(reading.history, workflowId, await readDataConverter(env));
  if (outcome.replays) {
    console.error(`this code (build ${outcome.buildId}) replays it: it would decide the same`);
    return 0;
  }
  return complain(3, `this code (build ${outcome.buildId}) does not replay it: ${outcome.difference}`);
}

function complain(code: number, text: string): number {
  console.error(text);
  return code;
}

async function runCommand(): Promise<void> {
  process.exitCode = await main();
}

runCommand().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
