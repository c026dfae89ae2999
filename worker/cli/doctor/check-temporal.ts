// Checks Temporal: reachable with our key and certificate, the namespace, its retention, and the search attributes of a run,
// which it installs on request.

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

/** The reconciler looks for the workflow of an unclaimed wake for a day, so histories must be kept that long. */
const RETENTION_SECONDS = 24 * 60 * 60;
/** A server may list a new search attribute only after a moment. */
const INSTALLED_WITHIN_MS = 15_000;
const RECHECK_MS = 250;

export async function checkTemporal(env: Environment, options: { install: boolean }): Promise<Finding[]> {
  return [...(await checkServer(env, options)), await checkConverter(env)];
}

async function checkServer(env: Environment, { install }: { install: boolean }): Promise<Finding[]> {
  const check = 'reachable';
  try {
    if (!namesTemporal(env)) {
      const message = 'no TEMPORAL_ADDRESS and no profile is set, and no embedded Temporal server is running here';
      return [{ area, check, state: 'wrong', message, fix: 'set TEMPORAL_ADDRESS=host:7233, or run: npm start' }];
    }
    const settings = readTemporalSettings(env);
    const connection = await openConnection(settings);
    try {
      const how = [settings.hasTls ? 'TLS' : 'no TLS', settings.hasApiKey ? 'an API key' : 'no API key'].join(', ');
      const message = `connected to ${settings.address}, with ${how}; the namespace "${settings.namespace}" exists`;
      return [
        { area, check, state: 'ok', message },
        await checkRetention(connection, settings),
        await checkSearchAttributes(connection, settings, install),
      ];
    } finally {
      await connection.close();
    }
  } catch (error) {
    const message = error instanceof TemporalUnavailable ? error.message : 'it can not be used';
    return [{ area, check, state: 'wrong', message, fix: 'check TEMPORAL_ADDRESS and the other TEMPORAL_ variables' }];
  }
}

async function checkRetention(connection: Connection, settings: TemporalSettings): Promise<Finding> {
  const check = 'retention';
  const { namespace } = settings;
  const { config } = await connection.workflowService.describeNamespace({ namespace });
  const seconds = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  const kept = `histories are kept for ${formatDuration(seconds)} after their end`;
  if (seconds >= RETENTION_SECONDS) {
    return { area, check, state: 'ok', message: `${kept}; after that, timelines come from the ledger alone` };
  }
  const fix = `temporal operator namespace update --namespace ${namespace} --retention 30d`;
  return { area, check, state: 'wrong', message: `${kept}, which is less than a day`, fix };
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
      await new Promise((resolve) => setTimeout(resolve, RECHECK_MS));
      found = await findMissingSearchAttributes(connection, namespace);
    }
    const { missing, mistyped } = found;
    if (mistyped.length > 0) {
      const message = `not of type Keyword: ${mistyped.join(', ')}`;
      const fix = 'use a namespace for this project alone, where these names are free';
      return { area, check, state: 'wrong', message, fix };
    }
    if (missing.length > 0) {
      const command = searchAttributesCommand(namespace, missing);
      const fix = `npm run doctor -- --install-search-attributes\nor: ${command}`;
      return { area, check, state: 'wrong', message: `missing: ${missing.join(', ')}`, fix };
    }
    const message = installed.length === 0 ? 'all exist' : `installed: ${installed.join(', ')}`;
    return { area, check, state: 'ok', message };
  } catch (error) {
    const message = explainTemporalFailure(settings, error).message;
    const fix = 'in Temporal Cloud, add them in its UI or with: tcld namespace search-attributes add';
    return { area, check, state: 'wrong', message, fix };
  }
}

async function checkConverter(env: Environment): Promise<Finding> {
  const check = 'data converter';
  try {
    const converter = await readDataConverter(env);
    const message =
      converter === undefined ? "the SDK's default" : `${env['TEMPORAL_DATA_CONVERTER']} encodes and decodes a sample`;
    return { area, check, state: 'ok', message };
  } catch (error) {
    const message = error instanceof TemporalUnavailable ? error.message : 'it can not be loaded';
    const fix = "point TEMPORAL_DATA_CONVERTER to a module that exports Temporal's DataConverter";
    return { area, check, state: 'wrong', message, fix };
  }
}

function formatDuration(seconds: number): string {
  const hours = seconds / 3_600;
  return hours >= 48 ? `${Math.round(hours / 24)} days` : `${Math.round(hours)} hours`;
}
