// `npm run dev`: the stack of `npm start`, compiled and restarted on every change. The TypeScript compiler watches the
// sources; after each compilation without errors, the API and the worker are restarted. The databases keep running.

import { spawn, type ChildProcess } from 'node:child_process';
import { cpSync, rmSync, watch } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DEFAULT_DATA_FOLDER } from './running';
import { CLI_CACHE, PROJECT_ROOT } from './project-root';
import { startStack, type Stack } from './stack';
import { printStackAddresses } from './stack-addresses';

const COMPILER = join(PROJECT_ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
const ASSETS = join('api', 'console', 'assets');
/** An editor writes a file in several steps; each is an event. */
const ASSETS_SETTLE_MS = 100;

async function main(): Promise<void> {
  let stack: Stack | undefined;
  let stopping = false;
  // Without the prebuilt bundles, each worker bundles the current workflow code when it starts.
  for (const name of ['workflow-bundle.js', 'workflow-bundle-traced.js']) {
    rmSync(join(__dirname, '..', name), { force: true });
  }

  const stop = (code: number): void => {
    if (stopping) return;
    stopping = true;
    console.log('stopping …');
    compiler.kill('SIGTERM');
    void (stack?.stop() ?? Promise.resolve()).finally(() => process.exit(code));
  };
  process.on('SIGINT', () => stop(0));
  process.on('SIGTERM', () => stop(0));

  // One restart at a time; a change during a restart causes one more.
  let restarting: Promise<void> | undefined;
  let changed = false;
  const restart = (): void => {
    changed = true;
    restarting ??= (async () => {
      while (changed && !stopping) {
        changed = false;
        console.log('  restarting the API and the worker …');
        await stack?.restartProcesses().then(
          () => console.log('  restarted'),
          (error: unknown) => console.error(`${messageOf(error)}; the next change restarts everything`),
        );
      }
      restarting = undefined;
    })();
  };

  const compiler = watchSources(() => {
    if (stack !== undefined) restart();
  });
  compiler.once('exit', () => {
    if (!stopping) console.error('the compiler ended');
    stop(1);
  });
  watchAssets(restart);

  stack = await startStack({
    dataFolder: process.env['DATA_FOLDER'] ?? DEFAULT_DATA_FOLDER,
    env: process.env,
    services: {
      cliCacheDir: CLI_CACHE,
      onUnexpectedEnd: (reason) => {
        console.error(reason);
        stop(1);
      },
    },
    log: (line) => console.log(`  ${line}`),
    onExit: (name, _, code, signal) =>
      console.error(`the ${name} process ended (${signal ?? code}); the next change restarts it`),
  });
  printStackAddresses(stack);
  console.log('  A change of a source file restarts the API and the worker.');
}

/** Compiles on every change, and calls `onCompiled` after each compilation without errors but the first. */
function watchSources(onCompiled: () => void): ChildProcess {
  const args = [COMPILER, '-p', 'tsconfig.build.json', '--watch', '--preserveWatchOutput', '--pretty', 'false'];
  const compiler = spawn(process.execPath, args, { cwd: PROJECT_ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  let compilations = 0;
  createInterface({ input: compiler.stdout }).on('line', (line) => {
    if (line.trim() !== '') console.log(`  ${line}`);
    const found = /Found (\d+) errors?\b/.exec(line);
    if (found === null) return;
    compilations += 1;
    if (compilations > 1 && found[1] === '0') onCompiled();
  });
  return compiler;
}

/** Copies the console's assets beside the compiled code on every change, and calls `onCopied`. */
function watchAssets(onCopied: () => void): void {
  let timer: NodeJS.Timeout | undefined;
  watch(join(PROJECT_ROOT, ASSETS), () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      cpSync(join(PROJECT_ROOT, ASSETS), join(PROJECT_ROOT, 'dist', ASSETS), { recursive: true });
      onCopied();
    }, ASSETS_SETTLE_MS);
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

main().catch((error: unknown) => {
  console.error(messageOf(error));
  process.exit(1);
});
