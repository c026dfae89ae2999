// Prisma's schema engine for one database: WebAssembly, with an adapter that is corrected where it would harm a migration.
// migrate.ts decides what the engine does.

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

/** A statement that waits for a table lock blocks all later statements on the table. After this time the script fails. */
const TABLE_LOCK_TIMEOUT_MS = 10_000;

export interface SchemaEngineSession {
  readonly engine: SchemaEngine;
  /** The server's error about the last script, if the server refused the script and certainly rolled it back. */
  scriptRefusal(): string | undefined;
  close(): Promise<void>;
}

export interface SchemaEngineOptions {
  /** Adds statements to a script before it is sent, in the same transaction. */
  readonly completeScript?: (sql: string) => string;
  /** The text of schema.prisma. Needed for a comparison, not for a migration. */
  readonly datamodel?: string;
  /** Corrects the adapter further. Needed for a comparison, in which the engine reads catalogs through it. */
  readonly adapt?: (adapter: SqlDriverAdapter, pool: pg.Pool) => void;
}

/** Starts Prisma's schema engine for one database. */
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
    // One connection: the engine relies on session state and takes its own advisory lock in the session.
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
 * The adapter splits a script at every semicolon, also inside a function's body, and commits each part separately. As one
 * message of the simple protocol, a script is one transaction and its functions stay intact.
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

/** The refusal of a script. Undefined if the script may be committed: without a SQLSTATE, or if the connection ended. */
function knownRefusal(error: unknown): string | undefined {
  if (!isDriverAdapterError(error)) return undefined;
  const { originalCode: code, originalMessage: message } = error.cause;
  if (code === undefined || !/^[0-9A-Z]{5}$/.test(code) || code.startsWith('08') || code.startsWith('57P')) {
    return undefined;
  }
  return `${message ?? 'no message'} (${code})`;
}

/** The used part of WebAssembly: only the DOM's types declare it, and Node's do not. */
declare const WebAssembly: {
  instantiate(
    bytes: Uint8Array,
    imports: Readonly<Record<string, object>>,
  ): Promise<{ instance: { exports: { __wbindgen_start(): void } } }>;
};

type SchemaEngineModule = typeof import('@prisma/schema-engine-wasm/schema_engine_bg');
let schemaEngineModule: Promise<SchemaEngineModule> | undefined;

/**
 * Does the same as the package's own entry, which imports its .wasm as a module, and Node 20 cannot do that. Loaded on first
 * use, because a process without a migration should not hold 5 MB. (Under jest the transform must include the package: it
 * is ESM, and jest's `require` on Node 20 is not.)
 */
function loadSchemaEngine(): Promise<SchemaEngineModule> {
  schemaEngineModule ??= (async () => {
    const glue = await import('@prisma/schema-engine-wasm/schema_engine_bg');
    // The engine reports a panic to this registry. Without it, a panic is only a TypeError.
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

/** The engine does not stop the timer of its lock's time limit, which would keep a finished process alive for ten seconds. */
function setUnheldTimeout(callback: () => void, delayMs: number): NodeJS.Timeout {
  return setTimeout(callback, delayMs).unref();
}

function refuseToPanicSilently(message: string): never {
  throw new Error(`Prisma's schema engine panicked: ${message}`);
}
