// The migrations' code as a deployment has it: compiled under `dist/`, run by plain node in processes of their own.

import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { transformFileSync } from '@swc/core';
import { findPrismaDir } from '../../prisma/migrate';

export interface Exit {
  readonly code: number | null;
  readonly output: string;
}

export interface CompiledProject {
  /** A copy of the project's migrations, to add to. */
  readonly migrationsDir: string;
  /** `node dist/prisma/migrate.js`. */
  migrate(databaseUrl: string): { kill(): void; exit: Promise<Exit> };
  remove(): void;
}

export function compileProject(): CompiledProject {
  const root = mkdtempSync(join(tmpdir(), 'durable-room-dist-'));
  const sources = findPrismaDir();
  mkdirSync(join(root, 'dist/prisma'), { recursive: true });
  cpSync(join(sources, 'migrations'), join(root, 'prisma/migrations'), { recursive: true });
  symlinkSync(join(dirname(sources), 'node_modules'), join(root, 'node_modules'));
  for (const name of ['database-url', 'schema-engine', 'migrate']) {
    const { code } = transformFileSync(join(sources, `${name}.ts`), {
      jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
      // As tsc: `import()` stays what it is.
      module: { type: 'commonjs', ignoreDynamic: true },
      swcrc: false,
    });
    writeFileSync(join(root, 'dist/prisma', `${name}.js`), code);
  }
  return {
    migrationsDir: join(root, 'prisma/migrations'),
    migrate: (databaseUrl) => {
      const child = spawn(process.execPath, [join(root, 'dist/prisma/migrate.js')], {
        env: { PATH: process.env['PATH'], DATABASE_URL: databaseUrl },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
      child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
      const exit = new Promise<Exit>((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code) => resolve({ code, output }));
      });
      return { kill: () => void child.kill('SIGKILL'), exit };
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}
