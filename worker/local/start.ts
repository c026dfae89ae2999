// `npm start`: the whole stack for daily use. The data folder keeps the data for the next start.

import { DEFAULT_DATA_FOLDER } from './running';
import { startStack, type Stack } from './stack';
import { printStackAddresses } from './stack-addresses';
import { CLI_CACHE } from './project-root';

/** The delay before an ended process is started again, so that the output of a crash loop stays readable. */
const RESTART_MS = 1_000;

async function main(): Promise<void> {
  let stack: Stack | undefined;
  let stopping = false;
  const stop = (code: number): void => {
    if (stopping) return;
    stopping = true;
    console.log('stopping …');
    void (stack?.stop() ?? Promise.resolve()).finally(() => process.exit(code));
  };
  process.on('SIGINT', () => stop(0));
  process.on('SIGTERM', () => stop(0));
  const restart = (name: string, again: () => Promise<unknown>): void => {
    if (stopping) return;
    setTimeout(() => {
      if (stopping) return;
      again().catch((error: unknown) => {
        console.error(`${name} could not be started again: ${error instanceof Error ? error.message : String(error)}`);
        stop(1);
      });
    }, RESTART_MS);
  };

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
    onExit: (name, _, code, signal) => {
      console.error(`the ${name} process ended (${signal ?? code}) and is started again`);
      restart(name, () => (name === 'api' ? stack?.restartApi() : stack?.startWorker()) ?? Promise.resolve());
    },
  });
  printStackAddresses(stack);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
