// Looks at Temporal: reachable with our key and certificate, the namespace, how long it keeps histories, and the search
// attributes of a run, which it installs when asked.

import type { Connection } from '@temporalio/client';
import { openConnection } from '../../temporal/connection';
import { readDataConverter } from '../../temporal/data-converter';
import { explainTemporalFailure, TemporalUnavailable } from '../../temporal/failure';
import { readTemporalSettings, type Environment, type TemporalSettings } from '../../temporal/settings';
import {
  findMissingSearchAttributes,
  installSearchAttributes,
  searchAttributesCommand,
} from '../../temporal/search-attributes';
import { namesTemporal } from '../tool-environment';
import type { Finding } from './findings';

const area = 'temporal';

/** A wake that nobody claims is given up after a day, and until then its workflow is looked up. */
const RETENTION_SECONDS = 24 * 60 * 60;
/** A server may take a moment to show what was added to it. */
const INSTALLED_WITHIN_MS = 15_000;
const LOOK_AGAIN_MS = 250;

export async function checkTemporal(env: Environment, options: { install: boolean }): Promise<Finding[]> {
  return [...(await checkServer(env, options)), await checkConverter(env)];
}

async function checkServer(env: Environment, { install }: { install: boolean }): Promise<Finding[]> {
  const check = 'reachable';
  try {
    if (!namesTemporal(env)) {
      const says = 'no TEMPORAL_ADDRESS and no profile is set, and no embedded Temporal server is running here';
      return [{ area, check, state: 'wrong', says, mend: 'set TEMPORAL_ADDRESS=host:7233, or run: npm start' }];
    }
    const settings = readTemporalSettings(env);
    const connection = await openConnection(settings);
    try {
      const how = [settings.hasTls ? 'TLS' : 'no TLS', settings.hasApiKey ? 'an API key' : 'no API key'].join(', ');
      const says = `connected to ${settings.address}, with ${how}; it has the namespace "${settings.namespace}"`;
      return [
        { area, check, state: 'ok', says },
        await checkRetention(connection, settings),
        await checkSearchAttributes(connection, settings, install),
      ];
    } finally {
      await connection.close();
    }
  } catch (error) {
    const says = error instanceof TemporalUnavailable ? error.message : 'it can not be used';
    return [{ area, check, state: 'wrong', says, mend: 'check TEMPORAL_ADDRESS and what else names the server' }];
  }
}

async function checkRetention(connection: Connection, settings: TemporalSettings): Promise<Finding> {
  const check = 'retention';
  const { namespace } = settings;
  const { config } = await connection.workflowService.describeNamespace({ namespace });
  const seconds = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  const kept = `histories are kept for ${sayDuration(seconds)} after their end`;
  if (seconds >= RETENTION_SECONDS) {
    return { area, check, state: 'ok', says: `${kept}; later timelines are from the ledger alone` };
  }
  const mend = `temporal operator namespace update --namespace ${namespace} --retention 30d`;
  return { area, check, state: 'wrong', says: `${kept}, which is less than a day`, mend };
}

async function checkSearchAttributes(
  connection: Connection,
  settings: TemporalSettings,
  install: boolean,
): Promise<Finding> {
  const check = 'search attributes';
  const { namespace } = settings;
  try {
    const installed = install ? await installSearchAttributes(connection, namespace) : [];
    let found = await findMissingSearchAttributes(connection, namespace);
    for (const until = Date.now() + INSTALLED_WITHIN_MS; installed.length > 0 && found.missing.length > 0;) {
      if (Date.now() > until) break;
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
      found = await findMissingSearchAttributes(connection, namespace);
    }
    const { missing, mistyped } = found;
    if (mistyped.length > 0) {
      const says = `not of type Keyword: ${mistyped.join(', ')}`;
      const mend = 'use a namespace of its own for this project, where these names are free';
      return { area, check, state: 'wrong', says, mend };
    }
    if (missing.length > 0) {
      const command = searchAttributesCommand(namespace, missing);
      const mend = `npm run doctor -- --install-search-attributes\nor: ${command}`;
      return { area, check, state: 'wrong', says: `missing: ${missing.join(', ')}`, mend };
    }
    const says = installed.length === 0 ? 'all are there' : `installed: ${installed.join(', ')}`;
    return { area, check, state: 'ok', says };
  } catch (error) {
    const says = explainTemporalFailure(settings, error).message;
    const mend = 'in Temporal Cloud, add them in its UI or with: tcld namespace search-attributes add';
    return { area, check, state: 'wrong', says, mend };
  }
}

async function checkConverter(env: Environment): Promise<Finding> {
  const check = 'data converter';
  try {
    const converter = await readDataConverter(env);
    const says =
      converter === undefined ? "the SDK's own" : `${env['TEMPORAL_DATA_CONVERTER']} gives back what it takes`;
    return { area, check, state: 'ok', says };
  } catch (error) {
    const says = error instanceof TemporalUnavailable ? error.message : 'it can not be loaded';
    const mend = "point TEMPORAL_DATA_CONVERTER to a module that exports Temporal's DataConverter";
    return { area, check, state: 'wrong', says, mend };
  }
}

function sayDuration(seconds: number): string {
  const hours = seconds / 3_600;
  return hours >= 48 ? `${Math.round(hours / 24)} days` : `${Math.round(hours)} hours`;
}
