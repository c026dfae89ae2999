// `npm run crash-lab`: the same job under five ways of surviving a crash. The worker is killed at every step boundary and inside
// every step. `--quick` tests fewer points, `--jobs N` sets the jobs per cell, `--attempt SECONDS` is for a slow machine,
// `--out DIR` is the folder of report and chart, `--json FILE` writes all numbers.
//
//   start servers → measure costs → kill workers of all ways in parallel → count → report → stop everything
//
// Exit code: 0 if everything was measured, ways 1 to 3 acted twice and ways 4 and 5 never did; 1 otherwise; 130 after an
// interruption.

import { mkdir, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeMachine, readVersions } from '../machine';
import { createProgress } from '../progress';
import { PROJECT_ROOT } from '../../worker/local/project-root';
import { runLab } from './lab';
import { startOwnServers, type OwnServers } from './own-servers';
import { drawPicture } from './picture';
import { QUICK_POINTS } from './points';
import { toJson } from './report-json';
import { toMarkdown, type Measured } from './report-markdown';
import { printSummary } from './report-terminal';
import { ATTEMPT_MS, timesOf, type LabSettings } from './settings';
import { findBrokenExpectations, summarize } from './summary';
import { WAYS } from './ways';

const OUT = join(PROJECT_ROOT, '.durable-room', 'crash-lab');
/** On two cores more jobs would not reach their points together. */
const JOBS_PER_DEATH = 4;
const JOBS_LIMIT = 20;

interface Options {
  readonly settings: LabSettings;
  readonly out: string;
  readonly json: string | undefined;
  readonly command: string;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      jobs: { type: 'string' },
      attempt: { type: 'string', default: String(ATTEMPT_MS / 1_000) },
      out: { type: 'string', default: OUT },
      json: { type: 'string' },
    },
  });
  const jobs = Number(values.jobs ?? (values.quick ? 1 : 3));
  if (!Number.isInteger(jobs) || jobs < 1 || jobs > JOBS_LIMIT) throw new Error(`--jobs must be 1 to ${JOBS_LIMIT}`);
  const attemptSeconds = Number(values.attempt);
  if (!(attemptSeconds >= 3 && attemptSeconds <= 30)) throw new Error('--attempt must be 3 to 30 seconds');
  return {
    settings: {
      ways: WAYS,
      points: values.quick ? QUICK_POINTS : 'all',
      jobs,
      perDeath: JOBS_PER_DEATH,
      costJobs: values.quick ? 5 : 20,
      times: timesOf(attemptSeconds * 1_000),
    },
    out: values.out,
    json: values.json,
    command: ['npm run crash-lab', ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : [])].join(' '),
  };
}

async function main(): Promise<number> {
  const options = readOptions();
  const say = (line: string): void => console.log(line);
  const progress = createProgress(say);
  const abort = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    abort.signal.addEventListener('abort', () => reject(abort.signal.reason as Error));
  });
  // The race below handles the abort. Without this line an abort during the stop would be an unhandled rejection.
  aborted.catch(() => undefined);
  const interrupted = new Interrupted();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => abort.abort(interrupted));

  const startedAt = Date.now();
  let servers: OwnServers | undefined;
  let stopLab: () => Promise<void> = async () => undefined;
  let running: Promise<unknown> = Promise.resolve();
  try {
    progress.begin('starting PostgreSQL and Temporal');
    servers = await startOwnServers({
      log: (line) => progress.at(line),
      onBroken: (reason) => abort.abort(new Error(reason)),
      signal: abort.signal,
    });
    const lab = runLab(servers, options.settings, progress, (stop) => {
      stopLab = stop;
    });
    running = lab;
    const result = await Promise.race([aborted, lab]);
    const measured: Measured = {
      summary: summarize(result),
      result,
      machine: describeMachine(),
      versions: await readVersions(servers.environment),
      load: loadavg()[1] ?? Number.NaN,
      seconds: (Date.now() - startedAt) / 1_000,
      command: options.command,
    };
    progress.stop();
    printSummary(measured.summary, result, say);
    await writeReports(measured, options, say);
    const broken = findBrokenExpectations(result);
    for (const line of broken) console.error(`FAILED EXPECTATION: ${line}`);
    return broken.length === 0 ? 0 : 1;
  } catch (error) {
    if (error === interrupted || abort.signal.reason === interrupted) {
      say('interrupted');
      return 130;
    }
    console.error(error);
    return 1;
  } finally {
    progress.begin('stopping everything');
    await stopLab().catch((error: unknown) => console.error('while stopping:', error));
    // The running lab fails now and must end before its servers stop.
    await running.catch(() => undefined);
    await servers?.environment.stop();
    progress.stop();
  }
}

class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

async function writeReports(measured: Measured, options: Options, say: (line: string) => void): Promise<void> {
  await mkdir(options.out, { recursive: true });
  const report = join(options.out, 'crash-lab.md');
  const picture = join(options.out, 'crash-lab.svg');
  await writeFile(report, toMarkdown(measured));
  await writeFile(picture, drawPicture(measured));
  say(`report: ${report}`);
  say(`chart: ${picture}`);
  if (options.json === undefined) return;
  await mkdir(dirname(options.json), { recursive: true });
  await writeFile(options.json, `${JSON.stringify(toJson(measured), null, 2)}\n`);
  say(`all numbers: ${options.json}`);
}

void main()
  .catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  })
  .then((code) => process.exit(code));
