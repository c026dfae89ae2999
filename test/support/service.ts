// Starts all parts of a worker process in this process, on the shared servers: dispatcher, reconciler, worker, health port.

import { randomBytes } from 'node:crypto';
import pino from 'pino';
import { readWorkerConfig } from '../../worker/config';
import { startWorkerService, type Seams, type WorkerService } from '../../worker/service';
import { connectTemporal, type Temporal } from '../../worker/connections';
import { createLoopPasses, type LoopPasses } from './loop-passes';
import { quietRuntime, temporalAddress } from './runs';
import { sharedWorkflowBundle } from './workflow-bundle';
import { MASTER_KEYS, type World } from './world';

export interface TestService {
  readonly service: WorkerService;
  readonly temporal: Temporal;
  readonly taskQueue: string;
  /** The log lines. */
  readonly lines: readonly Record<string, unknown>[];
  get(path: string): Promise<{ status: number; text: string }>;
  /** Waits for the next pass of one of its loops. */
  readonly waitForPass: LoopPasses['waitForPass'];
  stop(): Promise<void>;
}

export async function startService(
  world: Pick<World, 'url'>,
  env: Record<string, string> = {},
  seams: Seams = {},
): Promise<TestService> {
  quietRuntime();
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'debug' }, { write: (line) => void lines.push(JSON.parse(line) as never) });
  const config = readWorkerConfig({
    DATABASE_URL: world.url,
    MASTER_KEYS,
    TASK_QUEUE: `test-${randomBytes(6).toString('hex')}`,
    WORKER_PORT: '0',
    DISPATCH_POLL_SECONDS: '0.1',
    ...env,
  });
  const temporal = await connectTemporal({ TEMPORAL_ADDRESS: temporalAddress(), TEMPORAL_NAMESPACE: 'default' });
  const passes = createLoopPasses();
  const service = await startWorkerService(config, temporal, log, {
    bundle: await sharedWorkflowBundle(),
    onPass: passes.onPass,
    ...seams,
  });
  return {
    service,
    temporal,
    taskQueue: config.taskQueue,
    lines,
    waitForPass: passes.waitForPass,
    get: async (path) => {
      const response = await fetch(`http://127.0.0.1:${service.healthPort}${path}`);
      return { status: response.status, text: await response.text() };
    },
    stop: async () => {
      await service.stop();
      await temporal.close();
    },
  };
}
