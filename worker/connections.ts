// A worker process's connections to Temporal: one for its client, and one that its worker polls through.

import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { NativeConnection } from '@temporalio/worker';
import { openConnection } from './temporal/connection';
import { readDataConverter } from './temporal/data-converter';
import { explainTemporalFailure } from './temporal/failure';
import { readTemporalSettings, type Environment, type TemporalSettings } from './temporal/settings';

export interface Temporal {
  readonly client: Client;
  /** Uses the worker's own connection, so that the answer to a start may carry the first task to this worker (eager start). */
  readonly starter: Client;
  /** The worker's own connection. */
  readonly native: NativeConnection;
  readonly namespace: string;
  /** Undefined: the SDK's default. */
  readonly dataConverter: DataConverter | undefined;
  close(): Promise<void>;
}

/**
 * Connects to the Temporal server that the environment names, with the data converter that it names.
 * @throws TemporalUnavailable that explains the failure and holds no key
 */
export async function connectTemporal(env: Environment): Promise<Temporal> {
  const settings = readTemporalSettings(env);
  const { namespace } = settings;
  const dataConverter = await readDataConverter(env);
  const converting = dataConverter === undefined ? {} : { dataConverter };
  const connection = await openConnection(settings);
  try {
    const native = await connectNative(settings);
    return {
      client: new Client({ connection, namespace, ...converting }),
      starter: new Client({ connection: native, namespace, ...converting }),
      native,
      namespace,
      dataConverter,
      close: async () => {
        await native.close();
        await connection.close();
      },
    };
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function connectNative(settings: TemporalSettings): Promise<NativeConnection> {
  try {
    return await NativeConnection.connect(settings.options);
  } catch (error) {
    throw explainTemporalFailure(settings, error);
  }
}
