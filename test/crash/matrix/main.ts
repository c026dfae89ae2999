// `npm run crash-matrix`: checks the promises at every crash point under every fault and both policies.
// `--state FILE` and `--fresh`, `--out DIR`, `--faults a,b` for some faults only, `--minutes N` as the time limit.
//
//   start servers → run one fault after the other and save the state → report → stop everything
//
// Exit code 0 if every cell is clean or not applicable, 1 if a cell is not clean or on an error, 130 if interrupted.

import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { createProgress } from '../../../bench/progress';
import { ALL_CRASH_FAULTS, type CrashFault } from '../../support/crash-faults';
import { startCrashServers, type CrashServers } from '../../support/crash-servers';
import { COMPILED } from '../../support/compiled';
import { PROJECT_ROOT } from '../../../worker/local/project-root';
import { startScriptedModel, type ScriptedModel } from '../../support/scripted-model-server';
import { endWorkers } from '../../support/worker-processes';
import { countCells, listCells } from './cells';
import { runMatrix } from './matrix';
import { allCells, printSummary, toJson, toMarkdown, type MatrixReport } from './report';
import { fingerprintOf, loadState, saveState, type MatrixState } from './state';

const OWN_FOLDER = join(PROJECT_ROOT, '.durable-room');
const OUT = join(OWN_FOLDER, 'crash-matrix');
/** Four times the duration on two busy cores. */
const MINUTES = 40;

interface Options {
  readonly faults: readonly CrashFault[];
  readonly state: string;
  readonly isFresh: boolean;
  readonly out: string;
  readonly minutes: number;
  readonly command: string;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      faults: { type: 'string', default: ALL_CRASH_FAULTS.join(',') },
      state: { type: 'string', default: join(OUT, 'state.json') },
      fresh: { type: 'boolean', default: false },
      out: { type: 'string', default: OUT },
      minutes: { type: 'string', default: String(MINUTES) },
    },
  });
  const faults = values.faults.split(',').map((name) => {
    const fault = ALL_CRASH_FAULTS.find((known) => known === name);
    if (!fault) throw new Error(`--faults: "${name}" is not one of ${ALL_CRASH_FAULTS.join(', ')}`);
    return fault;
  });
  const minutes = Number(values.minutes);
  if (!(minutes > 0)) throw new Error('--minutes must be a number above 0');
  return {
    faults: [...new Set(faults)],
    state: resolve(values.state),
    isFresh: values.fresh,
    out: resolve(values.out),
    minutes,
    command: ['npm run crash-matrix', ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : [])].join(' '),
  };
}

async function startOrResume(options: Options, say: (line: string) => void): Promise<MatrixState> {
  const fingerprint = fingerprintOf(COMPILED);
  const { faults } = options;
  const loaded = options.isFresh ? { state: null, why: null } : await loadState(options.state, { fingerprint, faults });
  if (loaded.state !== null) {
    say(
      `resuming after ${loaded.state.done.map(({ fault }) => fault).join(', ') || 'no fault'} (--fresh starts again)`,
    );
    loaded.state.starts += 1;
    return loaded.state;
  }
  if (loaded.why !== null) say(loaded.why);
  return { fingerprint, faults, startedAt: new Date().toISOString(), starts: 1, done: [] };
}

class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

async function main(): Promise<number> {
  const options = readOptions();
  const say = (line: string): void => console.log(line);
  const progress = createProgress(say);
  const abort = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    abort.signal.addEventListener('abort', () => reject(abort.signal.reason as Error));
  });
  // The races below handle the rejection. Without this line, an abort during the stop would be an unhandled rejection.
  aborted.catch(() => undefined);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => abort.abort(new Interrupted()));
  }
  const bound = setTimeout(() => {
    abort.abort(new Error(`not finished in ${options.minutes} minutes; the next start resumes here`));
  }, options.minutes * 60_000);

  let servers: CrashServers | undefined;
  let model: ScriptedModel | undefined;
  let starting: Promise<CrashServers> | undefined;
  try {
    const state = await startOrResume(options, say);
    say(`${listCells(state.faults).length} cells; the state is in ${options.state}`);
    await saveState(options.state, state);
    progress.begin('starting PostgreSQL and Temporal');
    starting = startCrashServers({
      cliCacheDir: join(OWN_FOLDER, 'cache'),
      temporalCliPath: process.env['TEMPORAL_CLI_PATH'],
      log: (line) => progress.at(line),
    });
    servers = await Promise.race([aborted, starting]);
    // Test worlds and workers read the addresses of their servers from these variables.
    Object.assign(process.env, {
      TEST_DATABASE_URL_BASE: servers.databaseUrl,
      TEST_TEMPORAL_ADDRESS: servers.temporalAddress,
    });
    model = await startScriptedModel();
    const running = runMatrix(state, {
      servers,
      model,
      progress,
      signal: abort.signal,
      onDone: async (result) => {
        const { clean, notClean, notApplicable } = countCells(result.cells);
        const took = `${result.seconds.toFixed(0)} s`;
        say(`${result.fault}: ${clean} clean, ${notClean} not clean, ${notApplicable} not applicable, ${took}`);
        await saveState(options.state, state);
      },
    });
    // After an abort no code awaits this promise, and it rejects because the servers have stopped.
    running.catch(() => undefined);
    await Promise.race([aborted, running]);
    progress.stop();
    const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node.js ${process.version}`;
    await writeReports({ command: options.command, machine, state }, options.out, say);
    return countCells(allCells(state)).notClean === 0 ? 0 : 1;
  } catch (error) {
    if (abort.signal.reason instanceof Interrupted) {
      say('interrupted; the next start resumes here');
      return 130;
    }
    console.error(error);
    return 1;
  } finally {
    clearTimeout(bound);
    progress.begin('stopping everything');
    await endWorkers();
    await model?.stop();
    servers ??= await starting?.catch(() => undefined);
    await servers?.stop().catch((error: unknown) => console.error('while stopping:', error));
    progress.stop();
  }
}

async function writeReports(report: MatrixReport, out: string, say: (line: string) => void): Promise<void> {
  printSummary(report.state, say);
  await mkdir(out, { recursive: true });
  const markdown = join(out, 'crash-matrix.md');
  const json = join(out, 'crash-matrix.json');
  await writeFile(markdown, toMarkdown(report));
  await writeFile(json, `${JSON.stringify(toJson(report), null, 2)}\n`);
  say(`report: ${markdown}`);
  say(`all numbers: ${json}`);
}

void main()
  .catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    return 1;
  })
  .then((code) => process.exit(code));
