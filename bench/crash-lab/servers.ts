// The servers of a lab. `npm run crash-lab` starts its own (the bench's environment); the test passes those of the test run.

import type { Client } from '@temporalio/client';
import type { ScriptedModel } from '../../test/support/scripted-model-server';
import type { Way } from './ways';

export interface LabDatabase {
  /** For the lab. */
  readonly url: string;
  /** For workers, with their own role if statements are counted. */
  readonly workerUrl: string;
  /** Statements of the workers so far, without BEGIN and COMMIT; null if they are not counted. */
  countStatements(): Promise<number | null>;
  drop(): Promise<void>;
}

export interface LabServers {
  readonly temporalAddress: string;
  readonly client: Client;
  readonly model: ScriptedModel;
  /** A folder for the lab; the owner of these servers removes it. */
  readonly scratch: string;
  /** Creates a migrated database for one way. */
  createDatabase(way: Way): Promise<LabDatabase>;
}
