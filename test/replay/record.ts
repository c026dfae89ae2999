// Records one history for each way on a real server, for the current version: `npm run record-histories`. Commit changed
// histories together with the workflow change that needs them, and explain why old histories still replay. Never record the
// histories of an earlier version again: its runs may still be open.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { PRESETS } from '../../prisma/store/rooms/roster';
import { wakeWorkflowId } from '../../workflows/contract';
import { failingIn } from '../support/faults';
import { closedRun, startTestWorker } from '../support/runs';
import { startScriptedModel } from '../support/scripted-model-server';
import { runWay, WAYS } from '../support/ways';
import { createWorld } from '../support/world';
import { HISTORIES, VERSION } from './versions';

const FOLDER = join(HISTORIES, VERSION);

test.each(WAYS)('records $name', async (way) => {
  const model = await startScriptedModel();
  const world = await createWorld({
    modelUrl: model.url,
    onCrash: way.onCrash ?? 'stop',
    rights: way.rights ?? PRESETS.autonomous,
  });
  const unreachable = (): Error => Object.assign(new Error('gone'), { code: 'ECONNRESET' });
  const worker = await startTestWorker(world, {
    taskQueue: 'durable-room',
    identity: 'worker',
    ...(way.timeouts === undefined ? {} : { timeouts: way.timeouts }),
    ...(way.failIn === undefined ? {} : { deps: { db: failingIn(world.db, way.failIn, unreachable) } }),
  });
  try {
    const { messageId } = await runWay({ model, world, worker }, way);
    const workflowId = wakeWorkflowId(world.scribe.id, messageId);
    if (way.ending === null) {
      write(way.name, await worker.client.workflow.getHandle(workflowId).fetchHistory());
      return;
    }
    const run = await closedRun(world.db, messageId, world.scribe.id);
    expect(run.ending).toBe(way.ending);
    const handle = worker.client.workflow.getHandle(workflowId, run.temporalRunId as string);
    if (!way.terminate) await handle.result();
    write(way.name, await handle.fetchHistory());
  } finally {
    await worker.stop();
    await world.close();
    await model.stop();
  }
});

function write(name: string, history: Parameters<typeof historyToJSON>[0]): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, `${name}.json`), `${historyToJSON(history)}\n`);
}
