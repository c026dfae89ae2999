// For `prisma generate` and for whoever uses Prisma's own CLI. The project migrates with prisma/migrate.ts.

import { defineConfig } from 'prisma/config';

// `prisma generate` insists on an engine binary that it never runs; any existing file spares it the download.
process.env['PRISMA_SCHEMA_ENGINE_BINARY'] ??= process.execPath;

export default defineConfig({
  schema: 'prisma/schema.prisma',
  migrations: { path: 'prisma/migrations' },
});
