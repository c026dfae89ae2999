// Prisma's schema engine on one database: as WebAssembly, through an adapter mended where it would harm a migration.
// What it is told to do is migrate.ts' affair.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PrismaPg } from '@prisma/adapter-pg';
import {
  bindMigrationAwareSqlAdapterFactory,
  isDriverAdapterError,
  type SqlDriverAdapter,
  type SqlMigrationAwareDriverAdapterFactory,
} from '@prisma/driver-adapter-utils';
import type { SchemaEngine } from '@prisma/schema-engine-wasm/schema_engine_bg';
import pg from 'pg';
import { addSessionSettings, CONNECT_TIMEOUT_MS } from './database-url';

/** A statement that waits for a table makes everyone who comes after it wait too. After this long it gives up, whole. */
const TABLE_LOCK_TIMEOUT_MS = 10_000;

export interface SchemaEngineSession {
  readonly engine: SchemaEngine;
  /** What the server said to the last script, when it refused it and is known to have kept nothing of it. */
  scriptRefusal(): string | undefined;
  close(): Promise<void>;
}

export interface SchemaEngineOptions {
  /** Adds to a script before it is sent, in the same transaction. */
  readonly completeScript?: (sql: string) => string;
  /** The text of schema.prisma. Needed to compare, not to migrate. */
  readonly datamodel?: string;
  /** Mends the adapter further. Needed to compare: the engine then reads catalogs through it. */
  readonly adapt?: (adapter: SqlDriverAdapter, pool: pg.Pool) => void;
}

/** Prisma's schema engine on one database. */
export async function openSchemaEngine(
  databaseUrl: string,
  options: SchemaEngineOptions,
): Promise<SchemaEngineSession> {
  const { SchemaEngine } = await loadSchemaEngine();
  const pool = new pg.Pool({
    connectionString: addSessionSettings(databaseUrl, {
      statement_timeout: 0,
      lock_timeout: TABLE_LOCK_TIMEOUT_MS,
      timezone: 'UTC',
    }),
    application_name: 'durable-room migrate',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    // One connection: the engine relies on session state, and takes an advisory lock of its own there.
    max: 1,
  });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));

  let refusal: string | undefined;
  const adapt = (adapter: SqlDriverAdapter): void => {
    sendScriptsWhole(adapter, options.completeScript ?? ((sql) => sql), (error) => {
      refusal = knownRefusal(error);
    });
    options.adapt?.(adapter, pool);
  };
  try {
    const engine = await SchemaEngine.new(
      { datamodels: options.datamodel === undefined ? undefined : [['schema.prisma', options.datamodel]] },
      () => undefined,
      bindMigrationAwareSqlAdapterFactory(adapted(new PrismaPg(pool), adapt)),
    );
    return {
      engine,
      scriptRefusal: () => refusal,
      close: async () => {
        engine.free();
        await pool.end();
      },
    };
  } catch (error) {
    await pool.end();
    throw error;
  }
}

/**
 * The adapter cuts a script at every semicolon, also inside a function's body, and commits piece by piece. Sent whole,
 * by the simple protocol, a script is one transaction, and a function is what was written.
 */
function sendScriptsWhole(
  adapter: SqlDriverAdapter,
  complete: (sql: string) => string,
  onError: (error: unknown) => void,
): void {
  adapter.executeScript = async (script) => {
    try {
      await adapter.executeRaw({ sql: complete(script), args: [], argTypes: [] });
    } catch (error) {
      onError(error);
      throw error;
    }
  };
}

function adapted(
  inner: SqlMigrationAwareDriverAdapterFactory,
  adapt: (adapter: SqlDriverAdapter) => void,
): SqlMigrationAwareDriverAdapterFactory {
  const through = async (connecting: Promise<SqlDriverAdapter>): Promise<SqlDriverAdapter> => {
    const adapter = await connecting;
    adapt(adapter);
    return adapter;
  };
  return {
    provider: inner.provider,
    adapterName: inner.adapterName,
    connect: () => through(inner.connect()),
    connectToShadowDb: () => through(inner.connectToShadowDb()),
  };
}

/** Undefined where the script may have been kept: without a SQLSTATE, or when the connection was what ended. */
function knownRefusal(error: unknown): string | undefined {
  if (!isDriverAdapterError(error)) return undefined;
  const { originalCode: code, originalMessage: message } = error.cause;
  if (code === undefined || !/^[0-9A-Z]{5}$/.test(code) || code.startsWith('08') || code.startsWith('57P')) {
    return undefined;
  }
  return `${message ?? 'no message'} (${code})`;
}

/** The little that is used of it: Node's types leave WebAssembly to the DOM's. */
declare const WebAssembly: {
  instantiate(
    bytes: Uint8Array,
    imports: Readonly<Record<string, object>>,
  ): Promise<{ instance: { exports: { __wbindgen_start(): void } } }>;
};

type SchemaEngineModule = typeof import('@prisma/schema-engine-wasm/schema_engine_bg');
let schemaEngineModule: Promise<SchemaEngineModule> | undefined;

/**
 * The package's own entry imports its .wasm as a module, which Node 20 can't; so do what that entry does. Loaded when
 * first needed: 5 MB that a process which has nothing to migrate with should not hold. (Under jest the package must be
 * in reach of the transform: it is ESM, and jest's `require` on Node 20 is not.)
 */
function loadSchemaEngine(): Promise<SchemaEngineModule> {
  schemaEngineModule ??= (async () => {
    const glue = await import('@prisma/schema-engine-wasm/schema_engine_bg');
    // Where a panic of the engine looks for someone to tell; without it, all that is left is a TypeError.
    Object.assign(globalThis, { PRISMA_WASM_PANIC_REGISTRY: { set_message: refuseToPanicSilently } });
    const gluePath = require.resolve('@prisma/schema-engine-wasm/schema_engine_bg');
    const wasm = readFileSync(join(dirname(gluePath), 'schema_engine_bg.wasm'));
    const imports = Object.entries(glue).map(([name, value]): [string, unknown] =>
      name.startsWith('__wbg_setTimeout_') ? [name, setUnheldTimeout] : [name, value],
    );
    const { instance } = await WebAssembly.instantiate(wasm, { './schema_engine_bg.js': Object.fromEntries(imports) });
    glue.__wbg_set_wasm(instance.exports);
    instance.exports.__wbindgen_start();
    return glue;
  })();
  return schemaEngineModule;
}

/** The engine leaves the time limit of its lock running: a process that is done would stay for ten seconds more. */
function setUnheldTimeout(callback: () => void, delayMs: number): NodeJS.Timeout {
  return setTimeout(callback, delayMs).unref();
}

function refuseToPanicSilently(message: string): never {
  throw new Error(`Prisma's schema engine panicked: ${message}`);
}
