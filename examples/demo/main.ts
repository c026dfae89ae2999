// `npm run demo`: shows the whole system on one machine. Everything is real except the model, which is scripted and uses a
// provider's wire format on loopback.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startStack, type Stack } from '../../worker/local/stack';
import { startScriptedModel } from '../../test/support/scripted-model-server';
import { replyAsActor } from './actors';
import { bold, dim } from './narrator';
import { runStory } from './story';
import { CLI_CACHE } from '../../worker/local/project-root';

async function main(): Promise<void> {
  const keep = process.argv.includes('--keep');
  const startedAt = Date.now();
  const undo: (() => Promise<unknown>)[] = [];
  let stopping: Promise<void> | undefined;
  const end = (): Promise<void> =>
    (stopping ??= (async () => {
      for (const step of undo.reverse()) await step();
    })());
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      console.log('\nstopping …');
      void end().finally(() => process.exit(keep ? 0 : 130));
    });
  }
  try {
    console.log(bold('Durable Room: what happens to an agent’s work when its worker process dies\n'));
    console.log('Starting a PostgreSQL, a Temporal server, the API, a worker, and a scripted model:');
    const model = await startScriptedModel();
    undo.push(() => model.stop());
    model.respond(replyAsActor);
    const folder = await mkdtemp(join(tmpdir(), 'durable-room-demo-'));
    undo.push(() => rm(folder, { recursive: true, force: true }));
    const stack = await startStack({
      dataFolder: folder,
      env: demoEnvironment(model.url),
      services: { cliCacheDir: CLI_CACHE },
      log: (line) => console.log(`  ${line}`),
    });
    undo.push(() => stack.stop());
    const result = await runStory(stack, model);
    const seconds = Math.round((Date.now() - startedAt) / 1_000);
    console.log(dim(`\nTotal time: ${seconds} s.`));
    if (keep) printAddresses(stack, result.adminKey, result.roomId);
    else console.log(dim('All processes are being stopped. `npm run demo -- --keep` keeps them running.'));
  } catch (error) {
    console.error(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
    await end();
    process.exit();
  }
  if (!keep) {
    await end();
    process.exit();
  }
}

// Short timeouts, so that recovery after a crash takes only seconds.
function demoEnvironment(modelUrl: string): Record<string, string | undefined> {
  return {
    ...process.env,
    API_PORT: '0',
    // The demo polls with one key many times per second.
    RATE_LIMIT_PER_MINUTE: '100000',
    WORKER_PORT: '0',
    MODEL_PROVIDERS: `scripted=${modelUrl}`,
    RUN_STEP_TIMEOUT_SECONDS: '5',
    RUN_HEARTBEAT_SECONDS: '4',
    LOG_LEVEL: 'error',
  };
}

function printAddresses(stack: Stack, adminKey: string, roomId: string): void {
  console.log(`\n  API          ${stack.apiUrl}`);
  if (stack.services.temporal.uiUrl) console.log(`  Temporal UI  ${stack.services.temporal.uiUrl}`);
  console.log(`  Admin key    ${adminKey}`);
  console.log(`\n  curl -H 'Authorization: Bearer ${adminKey}' '${stack.apiUrl}/v1/rooms/${roomId}/events?after=0'`);
  console.log('\n  Ctrl-C stops everything.');
}

void main();
