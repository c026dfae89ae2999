// The deployment's own data converter: one module, named in TEMPORAL_DATA_CONVERTER, that workers, clients and readers of
// histories use. Without it, the SDK's default.

import { isAbsolute, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { DataConverter, LoadedDataConverter } from '@temporalio/common';
import {
  decodeOptionalSinglePayload,
  encodeToPayload,
  loadDataConverter,
} from '@temporalio/common/lib/internal-non-workflow';
import { TemporalUnavailable } from './failure';
import type { Environment } from './settings';

const VARIABLE = 'TEMPORAL_DATA_CONVERTER';
const NAMES = ['payloadConverterPath', 'failureConverterPath', 'payloadCodecs', 'externalStorage'] as const;

/** Encoded and decoded once as a test, before the converter is used. */
const SAMPLE = { run: 'run_sample', declared: ['reply'], t: { limitMs: 1 } };

/**
 * The converter that TEMPORAL_DATA_CONVERTER names: a path to a module, or a package, whose exports (or whose `default`
 * or `dataConverter`) are a Temporal `DataConverter`. Undefined if none is named.
 * @throws TemporalUnavailable that explains what is wrong with the module
 */
export async function readDataConverter(env: Environment): Promise<DataConverter | undefined> {
  const named = env[VARIABLE];
  if (named === undefined || named === '') return undefined;
  const converter = converterOf(await loadModule(named), named);
  await testConverter(converter, named);
  return converter;
}

/** The converter in the form that the SDK's decoding functions take. */
export function loadedConverter(converter: DataConverter | undefined): LoadedDataConverter {
  return loadDataConverter(converter);
}

async function loadModule(named: string): Promise<unknown> {
  const path = /^\.{0,2}[/\\]/.test(named) || isAbsolute(named) ? resolve(named) : named;
  try {
    const file = require.resolve(path, { paths: [process.cwd()] });
    return await import(file);
  } catch (error) {
    throw new TemporalUnavailable(`${VARIABLE} names ${named}, which can't be loaded: ${firstLine(error)}`);
  }
}

function converterOf(module: unknown, named: string): DataConverter {
  const found = [...candidatesOf(module)].find((each) => NAMES.some((name) => name in each));
  if (found === undefined) {
    throw new TemporalUnavailable(`${VARIABLE} names ${named}, which exports none of ${NAMES.join(', ')}`);
  }
  const converter: Record<string, unknown> = {};
  for (const name of NAMES) if (found[name] !== undefined) converter[name] = found[name];
  const { payloadCodecs } = converter;
  if (payloadCodecs !== undefined && !(Array.isArray(payloadCodecs) && payloadCodecs.every(isCodec))) {
    throw new TemporalUnavailable(`${VARIABLE}: payloadCodecs of ${named} is not a list of {encode, decode}`);
  }
  return converter;
}

/** The exports themselves, the default export, and the `dataConverter` of each. */
function* candidatesOf(module: unknown): Generator<Record<string, unknown>> {
  for (let at = module, depth = 0; isRecord(at) && depth < 3; at = at['default'], depth += 1) {
    yield at;
    if (isRecord(at['dataConverter'])) yield at['dataConverter'];
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isCodec(codec: unknown): boolean {
  return isRecord(codec) && typeof codec['encode'] === 'function' && typeof codec['decode'] === 'function';
}

async function testConverter(converter: DataConverter, named: string): Promise<void> {
  let back: unknown;
  try {
    const loaded = loadDataConverter(converter);
    back = await decodeOptionalSinglePayload(loaded, await encodeToPayload(loaded, SAMPLE));
  } catch (error) {
    throw new TemporalUnavailable(`${VARIABLE} names ${named}, which can't convert: ${firstLine(error)}`);
  }
  if (isDeepStrictEqual(back, SAMPLE)) return;
  throw new TemporalUnavailable(`${VARIABLE} names ${named}, which does not decode what it encoded`);
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? '';
}
