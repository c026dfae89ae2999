// Compares a live database with schema.prisma, with the diff that Prisma uses to write migrations. The diff does not include
// CHECK constraints, triggers and partial indexes.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  ColumnTypeEnum,
  isDriverAdapterError,
  type SqlDriverAdapter,
  type SqlQuery,
  type SqlResultSet,
} from '@prisma/driver-adapter-utils';
import pg from 'pg';
import { findPrismaDir } from '../../prisma/migrate';
import { openSchemaEngine } from '../../prisma/schema-engine';

/** The SQL that changes the database to the schema of schema.prisma; empty if they are equal. */
export async function diffFromSchema(
  databaseUrl: string,
  datamodel: string = readFileSync(join(findPrismaDir(), 'schema.prisma'), 'utf8'),
): Promise<string> {
  const session = await openSchemaEngine(databaseUrl, { datamodel, adapt: readCatalogChars });
  try {
    const files = [{ path: 'schema.prisma', content: datamodel }];
    const { stdout } = await session.engine.diff({
      from: { tag: 'schemaDatasource', files, configDir: findPrismaDir() },
      to: { tag: 'schemaDatamodel', files },
      script: true,
      exitCode: null,
      filters: { externalTables: [], externalEnums: [] },
    });
    const script = stdout ?? '';
    return script.trim() === '-- This is an empty migration.' ? '' : script;
  } finally {
    await session.close();
  }
}

/** The types of catalog columns, by OID. */
const CATALOG_TYPES: Readonly<Record<number, number>> = {
  16: ColumnTypeEnum.Boolean,
  18: ColumnTypeEnum.Character,
  19: ColumnTypeEnum.Text,
  20: ColumnTypeEnum.Int64,
  21: ColumnTypeEnum.Int32,
  23: ColumnTypeEnum.Int32,
  25: ColumnTypeEnum.Text,
  26: ColumnTypeEnum.Int64,
  1002: ColumnTypeEnum.CharacterArray,
  1009: ColumnTypeEnum.TextArray,
};

/** The adapter refuses the `"char"` columns of the catalog (prisma/orm#27403). This function reads such queries itself. */
function readCatalogChars(adapter: SqlDriverAdapter, pool: pg.Pool): void {
  const ordinary = adapter.queryRaw.bind(adapter);
  adapter.queryRaw = async (query) => {
    try {
      return await ordinary(query);
    } catch (error) {
      if (!isDriverAdapterError(error) || error.cause.kind !== 'UnsupportedNativeDataType') throw error;
      return await readCatalog(query, pool);
    }
  };
}

async function readCatalog(query: SqlQuery, pool: pg.Pool): Promise<SqlResultSet> {
  const { fields, rows } = await pool.query<unknown[]>({ text: query.sql, values: query.args, rowMode: 'array' });
  return {
    columnNames: fields.map(({ name }) => name),
    columnTypes: fields.map(({ name, dataTypeID }) => {
      const type = CATALOG_TYPES[dataTypeID];
      if (type === undefined) throw new Error(`Column ${name} has an unknown type: ${dataTypeID}`);
      return type as SqlResultSet['columnTypes'][number];
    }),
    rows,
  };
}
