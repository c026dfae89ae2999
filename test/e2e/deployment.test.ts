// The Dockerfile and the compose file, parsed and held to the rules that their linters have, and their commands run as they
// stand there, on this machine instead of in a container.

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DockerfileParser, type Instruction } from 'dockerfile-ast';
import { parse } from 'yaml';
import { SEARCH_ATTRIBUTES } from '../../workflows/search-attributes';
import { createTestDatabase, type TestDatabase } from '../support/database';
import { freePorts } from '../support/free-ports';
import { temporalAddress, until } from '../support/run-waits';
import { MASTER_KEYS } from '../support/world';

const ROOT = join(__dirname, '..', '..');
const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');

interface Service {
  readonly image?: string;
  readonly command?: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { condition: string }>>;
  readonly healthcheck?: { test: readonly string[] };
  readonly restart?: string;
  readonly ports?: readonly string[];
  readonly stop_grace_period?: string;
}

const services = (parse(read('compose.yaml'), { merge: true }) as { services: Record<string, Service> }).services;
const ofName = (name: string): Service => {
  const service = services[name];
  if (!service) throw new Error(`compose.yaml has no ${name}`);
  return service;
};
const OURS = ['migrate', 'api', 'worker'];

describe('the Dockerfile', () => {
  const instructions = DockerfileParser.parse(read('Dockerfile')).getInstructions();
  const of = (keyword: string): Instruction[] => instructions.filter((one) => one.getKeyword() === keyword);

  test('builds in stages from one pinned base, and runs as a user that is not root', () => {
    const bases = of('FROM').map((from) => from.getArguments()[0]?.getValue());
    expect(bases.length).toBeGreaterThan(1);
    for (const base of bases) expect(base).toMatch(/^[a-z]+:\d+\.\d+[\w.-]*$/);
    expect(new Set(bases).size).toBe(1);
    expect(of('USER').at(-1)?.getArgumentsContent()).toBe('node');
    const lastFrom = instructions.lastIndexOf(of('FROM').at(-1) as Instruction);
    expect(instructions.indexOf(of('USER').at(-1) as Instruction)).toBeGreaterThan(lastFrom);
  });

  test('follows the rules of its linters', () => {
    expect(of('ADD')).toEqual([]);
    expect(of('MAINTAINER')).toEqual([]);
    for (const workdir of of('WORKDIR')) expect(workdir.getArgumentsContent()).toMatch(/^\//);
    // The exec form, or a shell would take the signal that stops the process.
    expect(JSON.parse(of('CMD').at(-1)?.getArgumentsContent() ?? '')).toEqual(['node', 'dist/worker/main.js']);
    for (const run of of('RUN').map((one) => one.getArgumentsContent() ?? '')) {
      expect(run).not.toMatch(/\bsudo\b|npm install\b|curl .*\|/);
      if (run.includes('apt-get install')) {
        expect(run).toMatch(/apt-get update && .*--no-install-recommends.* && rm -rf \/var\/lib\/apt\/lists/);
      }
    }
    const variables = [...of('ENV'), ...of('ARG')].map((one) => one.getArgumentsContent()).join(' ');
    expect(variables).not.toMatch(/KEY|SECRET|PASSWORD|TOKEN|DATABASE_URL/);
  });

  test('takes nothing into the image that has no business there', () => {
    const ignored = read('.dockerignore').split('\n');
    expect(ignored).toEqual(expect.arrayContaining(['.env', '.git', 'node_modules', 'dist', '.durable-room']));
  });
});

describe('the compose file', () => {
  test('pins every image, and migrates apart, before anything serves', () => {
    for (const { image } of Object.values(services)) if (image !== undefined) expect(image).toMatch(/:\d+\.\d+/);
    expect(ofName('migrate')).toMatchObject({
      command: ['node', 'dist/worker/cli/main.js', 'migrate'],
      restart: 'no',
      depends_on: { postgres: { condition: 'service_healthy' } },
    });
    for (const name of ['api', 'worker'])
      expect(ofName(name).depends_on).toMatchObject({ migrate: { condition: 'service_completed_successfully' } });
  });

  test('gives every process that serves a health check, and publishes to this machine only', () => {
    for (const name of ['postgres', 'temporal', 'api', 'worker']) expect(ofName(name).healthcheck).toBeDefined();
    for (const { ports } of Object.values(services))
      for (const port of ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
  });

  test('sets only variables that are documented, and holds no secret', () => {
    const documented = read('.env.example');
    for (const name of OURS)
      for (const variable of Object.keys(ofName(name).environment)) {
        if (variable.startsWith('TEMPORAL_')) continue;
        expect(documented).toMatch(new RegExp(`^#?${variable}=`, 'm'));
      }
    for (const secret of ['MASTER_KEYS', 'OPERATOR_KEY'])
      expect(ofName('api').environment[secret]).toMatch(new RegExp(`^\\$\\{${secret}:\\?`));
  });

  test('lets a worker finish what it does before it is killed, a model call included', () => {
    const worker = ofName('worker');
    const grace = Number(worker.environment['WORKER_SHUTDOWN_GRACE_SECONDS']);
    expect(grace).toBeGreaterThanOrEqual(95);
    expect(Number(worker.stop_grace_period?.replace('s', ''))).toBeGreaterThan(grace);
  });

  test("starts Temporal with the search attributes of a run, under the CLI's own flags", () => {
    const command = ofName('temporal').command ?? [];
    for (const name of SEARCH_ATTRIBUTES) expect(command).toContain(`--search-attribute=${name}=Keyword`);
    const embedded = read('worker/local/temporal-server.ts');
    for (const flag of command.filter((part) => part.startsWith('--'))) {
      const [name = '', value = ''] = flag.slice(2).split('=');
      expect(embedded).toContain(`--${name}`);
      if (name === 'sqlite-pragma') expect(embedded).toContain(flag.slice(flag.indexOf('=') + 1));
      expect(value).not.toBe('');
    }
  });
});

describe('the commands, outside a container', () => {
  let database: TestDatabase;
  const children: ChildProcess[] = [];

  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(async () => {
    for (const child of children) child.kill('SIGKILL');
    await database.drop();
  });

  const run = (command: readonly string[], env: Record<string, string>): ChildProcess => {
    const [program = '', ...args] = command;
    const child = spawn(program, args, {
      cwd: ROOT,
      env: { PATH: process.env['PATH'], ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    children.push(child);
    return child;
  };
  const exitOf = async (child: ChildProcess): Promise<number | null> =>
    child.exitCode ?? ((await once(child, 'exit')) as [number | null])[0];

  test('migrate, then the API and a worker until their own health checks pass, then SIGTERM', async () => {
    const [apiPort, metricsPort, workerPort, sdkPort] = await freePorts(4);
    /** As the compose file has it, with the hosts and secrets of this machine. */
    const envOf = (name: string): Record<string, string> => ({
      ...ofName(name).environment,
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: temporalAddress(),
      MASTER_KEYS,
      ...(name === 'api' && { OPERATOR_KEY: 'o'.repeat(40) }),
      API_PORT: String(apiPort),
      API_METRICS_PORT: String(metricsPort),
      WORKER_PORT: String(workerPort),
      WORKER_SDK_METRICS_ADDRESS: `127.0.0.1:${sdkPort}`,
      TASK_QUEUE: `test-compose-${apiPort}`,
      LOG_LEVEL: 'error',
    });
    expect(await exitOf(run(ofName('migrate').command ?? [], envOf('migrate')))).toBe(0);
    for (const name of ['api', 'worker']) {
      const { command = [], healthcheck } = ofName(name);
      expect(existsSync(join(ROOT, command[1] ?? ''))).toBe(true);
      const child = run(command, envOf(name));
      const check = (healthcheck?.test ?? []).slice(1);
      await until(`${name} to be healthy`, async () => (await exitOf(run(check, envOf(name)))) === 0);
      if (name === 'worker') {
        const sdk = await (await fetch(`http://127.0.0.1:${sdkPort}/metrics`)).text();
        expect(sdk).toMatch(/temporal_num_pollers|temporal_worker_task_slots_available/);
      }
      child.kill('SIGTERM');
      expect(await exitOf(child)).toBe(0);
      expect(await exitOf(run(check, envOf(name)))).toBe(1);
    }
  });
});
