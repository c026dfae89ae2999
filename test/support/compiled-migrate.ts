// Runs the command `durable-room migrate` as in a deployment: compiled to `dist/` and started as a process with plain node.

import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPrismaDir } from '../../prisma/migrate';
import { compileSources } from './compiled-sources';

export interface Exit {
  readonly code: number | null;
  readonly output: string;
}

export interface CompiledProject {
  /** A copy of the project's migrations. A test may add migrations here. */
  readonly migrationsDir: string;
  /** Starts `node dist/worker/cli/main.js migrate`. */
  migrate(databaseUrl: string): { kill(): void; exit: Promise<Exit> };
  remove(): void;
}

export function compileProject(): CompiledProject {
  const root = mkdtempSync(join(tmpdir(), 'durable-room-dist-'));
  const sources = findPrismaDir();
  cpSync(join(sources, 'migrations'), join(root, 'prisma/migrations'), { recursive: true });
  compileSources(root, [
    ...['database-url', 'schema-engine', 'migrate'].map((name) => `prisma/${name}`),
    ...['main', 'program', 'commands', 'migrate'].map((name) => `worker/cli/${name}`),
  ]);
  return {
    migrationsDir: join(root, 'prisma/migrations'),
    migrate: (databaseUrl) => {
      const child = spawn(process.execPath, [join(root, 'dist/worker/cli/main.js'), 'migrate'], {
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
