// The servers that a lab runs on. The program starts its own (the bench's ground); the test passes those of the test run.

import type { Client } from '@temporalio/client';
import type { ScriptedModel } from '../../test/support/scripted-model-server';
import type { Way } from './ways';

export interface LabDatabase {
  /** For the lab itself. */
  readonly url: string;
  /** For workers: under a role of their own where statements are counted. */
  readonly workerUrl: string;
  /** What the workers have sent so far, without BEGIN, COMMIT and the like; null where nobody counts. */
  countStatements(): Promise<number | null>;
  drop(): Promise<void>;
}

export interface LabServers {
  readonly temporalAddress: string;
  readonly client: Client;
  readonly model: ScriptedModel;
  /** A folder of the lab's own that somebody else removes. */
  readonly scratch: string;
  /** A migrated database of one way. */
  createDatabase(way: Way): Promise<LabDatabase>;
}
