// `npm start`: the whole stack for daily use. A second start finds its data again.

import { DEFAULT_DATA_FOLDER } from './running';
import { startStack, type Stack } from './stack';
import { CLI_CACHE } from './project-root';

/** A process that ends by itself is started again after this long, so that a crash loop stays readable. */
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
  const restart = (what: string, again: () => Promise<unknown>): void => {
    if (stopping) return;
    setTimeout(() => {
      if (stopping) return;
      again().catch((error: unknown) => {
        console.error(`${what} could not be started again: ${error instanceof Error ? error.message : String(error)}`);
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
  console.log('');
  console.log(`  API          ${stack.apiUrl}`);
  console.log(`  Console      ${stack.apiUrl}/console`);
  if (stack.services.temporal.uiUrl) console.log(`  Temporal UI  ${stack.services.temporal.uiUrl}`);
  if (stack.operatorKey) {
    console.log(`  Operator key ${stack.operatorKey}`);
    console.log('               Made just now and shown only this once: keep it.');
  }
  console.log('');
  console.log('  Ctrl-C stops all of it; the data stays for the next start.');
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
