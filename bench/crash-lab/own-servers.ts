// The servers of `npm run crash-lab`: those of the bench, with counted statements, in a folder that is removed at the end.

import { startEnvironment, type BenchEnvironment, type EnvironmentOptions } from '../environment';
import { between, readStatements } from '../statements';
import { sum } from '../statistics';
import type { LabServers } from './servers';
import { WAYS, type Way } from './ways';

const WORKER_ROLE = 'bench_worker';

export interface OwnServers extends LabServers {
  readonly environment: BenchEnvironment;
}

export async function startOwnServers(options: EnvironmentOptions): Promise<OwnServers> {
  const environment = await startEnvironment(options);
  try {
    // All databases are created first, because Postgres cannot copy the template while a session is open.
    for (const way of WAYS) await environment.createDatabase(nameOf(way));
  } catch (error) {
    await environment.stop();
    throw error;
  }
  return {
    environment,
    temporalAddress: environment.temporal.address,
    client: environment.temporal.client,
    model: environment.model,
    scratch: environment.folder,
    createDatabase: async (way: Way) => {
      const name = nameOf(way);
      let sql: Awaited<ReturnType<BenchEnvironment['connect']>> | undefined;
      return {
        url: environment.urlOf(name),
        workerUrl: environment.urlOf(name, WORKER_ROLE),
        countStatements: async () => {
          sql ??= await environment.connect(name);
          return sum(between(new Map(), await readStatements(sql, WORKER_ROLE)).map(({ calls }) => calls));
        },
        // The whole server is removed at the end.
        drop: async () => undefined,
      };
    },
  };
}

function nameOf(way: Way): string {
  return `lab_${way}`;
}
