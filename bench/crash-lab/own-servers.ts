// The servers of `npm run crash-lab`: those of the bench, which count statements, in a folder that is gone at the end.

import { startGround, type Ground, type GroundOptions } from '../ground';
import { between, readStatements } from '../statements';
import { sum } from '../statistics';
import type { LabServers } from './servers';
import { WAYS, type Way } from './ways';

const WORKER_ROLE = 'bench_worker';

export interface OwnServers extends LabServers {
  readonly ground: Ground;
}

export async function startOwnServers(options: GroundOptions): Promise<OwnServers> {
  const ground = await startGround(options);
  try {
    // All at once: the first is the template of the others, for as long as nobody is in it.
    for (const way of WAYS) await ground.createDatabase(nameOf(way));
  } catch (error) {
    await ground.stop();
    throw error;
  }
  return {
    ground,
    temporalAddress: ground.temporal.address,
    client: ground.temporal.client,
    model: ground.model,
    scratch: ground.folder,
    createDatabase: async (way: Way) => {
      const name = nameOf(way);
      let sql: Awaited<ReturnType<Ground['connect']>> | undefined;
      return {
        url: ground.urlOf(name),
        workerUrl: ground.urlOf(name, WORKER_ROLE),
        countStatements: async () => {
          sql ??= await ground.connect(name);
          return sum(between(new Map(), await readStatements(sql, WORKER_ROLE)).map(({ calls }) => calls));
        },
        // Goes with the whole server.
        drop: async () => undefined,
      };
    },
  };
}

function nameOf(way: Way): string {
  return `lab_${way}`;
}
