// The machine and the versions of a measurement.

import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import type { BenchEnvironment } from './environment';
import { PROJECT_ROOT } from '../worker/local/project-root';

const PACKAGES = ['@temporalio/client', '@temporalio/worker', '@temporalio/workflow', '@prisma/client', 'pg'] as const;

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memory_gb: number;
  readonly platform: string;
}

export function describeMachine(): Machine {
  const cores = cpus();
  return {
    cpu: cores[0]?.model.trim() ?? 'unknown',
    cores: cores.length,
    memory_gb: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform} ${process.arch}, ${release()}`,
  };
}

export async function readVersions(environment: BenchEnvironment): Promise<Record<string, string>> {
  const sql = await environment.connect('postgres');
  const { rows } = await sql.query<{ server_version: string }>('SHOW server_version');
  const { serverVersion } = await environment.temporal.client.workflowService.getSystemInfo({});
  return {
    node: process.version,
    temporal_server: serverVersion ?? 'unknown',
    postgresql: rows[0]?.server_version ?? 'unknown',
    ...Object.fromEntries(PACKAGES.map((name) => [name, versionOf(name)])),
  };
}

function versionOf(name: string): string {
  // Read by path, because a package may not export its package.json.
  const file = join(PROJECT_ROOT, 'node_modules', name, 'package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
