// A worker process's connections to Temporal: its clients', and the one that its worker polls through.

import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { NativeConnection } from '@temporalio/worker';
import { openConnection } from './temporal/connection';
import { readDataConverter } from './temporal/data-converter';
import { explainTemporalFailure } from './temporal/failure';
import { readTemporalSettings, type Environment, type TemporalSettings } from './temporal/settings';

export interface Temporal {
  readonly client: Client;
  /** Over the worker's own connection: what it starts, its worker may be handed in the answer. */
  readonly starter: Client;
  /** The worker's own connection. */
  readonly native: NativeConnection;
  readonly namespace: string;
  /** Undefined: the SDK's own. */
  readonly dataConverter: DataConverter | undefined;
  close(): Promise<void>;
}

/**
 * Connects a client and a worker to the Temporal that the environment names, with the data converter it names.
 * @throws TemporalUnavailable, which says what is wrong and holds no key
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
