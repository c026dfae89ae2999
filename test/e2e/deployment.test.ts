// The Dockerfile and the compose file: the rules of their linters, and every command. The commands run on this machine in a
// folder that holds only the files that the Dockerfile copies.

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DockerfileParser, type Instruction } from 'dockerfile-ast';
import { parse } from 'yaml';
import { SEARCH_ATTRIBUTES } from '../../workflows/search-attributes';
import { createTestDatabase, type TestDatabase } from '../support/database';
import { freePorts } from '../support/free-ports';
import { buildImageFolder, type ImageFolder } from '../support/image-folder';
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
const serviceOf = (name: string): Service => {
  const service = services[name];
  if (!service) throw new Error(`compose.yaml has no ${name}`);
  return service;
};
const OURS = ['migrate', 'api', 'worker'];

describe('the Dockerfile', () => {
  const instructions = DockerfileParser.parse(read('Dockerfile')).getInstructions();
  const of = (keyword: string): Instruction[] => instructions.filter((one) => one.getKeyword() === keyword);

  test('builds in stages from one pinned base image, and does not run as root', () => {
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
    // The exec form: in the shell form the shell would receive the stop signal instead of the process.
    expect(JSON.parse(of('CMD').at(-1)?.getArgumentsContent() ?? '')).toEqual(serviceOf('worker').command);
    for (const run of of('RUN').map((one) => one.getArgumentsContent() ?? '')) {
      expect(run).not.toMatch(/\bsudo\b|npm install\b|curl .*\|/);
      if (run.includes('apt-get install')) {
        expect(run).toMatch(/apt-get update && .*--no-install-recommends.* && rm -rf \/var\/lib\/apt\/lists/);
      }
    }
    const variables = [...of('ENV'), ...of('ARG')].map((one) => one.getArgumentsContent()).join(' ');
    expect(variables).not.toMatch(/KEY|SECRET|PASSWORD|TOKEN|DATABASE_URL/);
  });

  test('.dockerignore excludes secrets, the repository and build output', () => {
    const ignored = read('.dockerignore').split('\n');
    expect(ignored).toEqual(expect.arrayContaining(['.env', '.git', 'node_modules', 'dist', '.durable-room']));
  });
});

describe('the compose file', () => {
  test('pins every image, and runs the migrations in their own service before API and worker start', () => {
    for (const { image } of Object.values(services)) if (image !== undefined) expect(image).toMatch(/:\d+\.\d+/);
    expect(serviceOf('migrate')).toMatchObject({
      restart: 'no',
      depends_on: { postgres: { condition: 'service_healthy' } },
    });
    for (const name of ['api', 'worker'])
      expect(serviceOf(name).depends_on).toMatchObject({ migrate: { condition: 'service_completed_successfully' } });
  });

  test('gives every server process a health check, and publishes ports on loopback only', () => {
    for (const name of ['postgres', 'temporal', 'api', 'worker']) expect(serviceOf(name).healthcheck).toBeDefined();
    for (const { ports } of Object.values(services))
      for (const port of ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
  });

  test('sets only documented variables, and contains no secret', () => {
    const documented = read('.env.example');
    for (const name of OURS)
      for (const variable of Object.keys(serviceOf(name).environment)) {
        if (variable.startsWith('TEMPORAL_')) continue;
        expect(documented).toMatch(new RegExp(`^#?${variable}=`, 'm'));
      }
    for (const secret of ['MASTER_KEYS', 'OPERATOR_KEY'])
      expect(serviceOf('api').environment[secret]).toMatch(new RegExp(`^\\$\\{${secret}:\\?`));
  });

  test('gives a worker time to finish a model call before it is killed', () => {
    const worker = serviceOf('worker');
    const grace = Number(worker.environment['WORKER_SHUTDOWN_GRACE_SECONDS']);
    expect(grace).toBeGreaterThanOrEqual(95);
    expect(Number(worker.stop_grace_period?.replace('s', ''))).toBeGreaterThan(grace);
  });

  test('starts Temporal with the search attributes of a run and the flags of the embedded server', () => {
    const command = serviceOf('temporal').command ?? [];
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

describe('the files that the Dockerfile copies', () => {
  let image: ImageFolder;
  let database: TestDatabase;
  const children: ChildProcess[] = [];

  beforeAll(async () => {
    [image, database] = await Promise.all([buildImageFolder(), createTestDatabase()]);
    // It compiles the product: 15 s alone, 70 s beside other work.
  }, 180_000);
  afterAll(async () => {
    for (const child of children) child.kill('SIGKILL');
    await database.drop();
    image.remove();
  });

  const run = (command: readonly string[], env: Record<string, string>): ChildProcess => {
    const [program = '', ...args] = command;
    const child = spawn(program, args, {
      cwd: image.folder,
      env: { PATH: process.env['PATH'], ...image.env, ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    children.push(child);
    return child;
  };
  const exitOf = async (child: ChildProcess): Promise<number | null> =>
    child.exitCode ?? ((await once(child, 'exit')) as [number | null])[0];

  test('contain no path of a folder that is not in the image', () => {
    const files = readdirSync(join(image.folder, 'dist'), { recursive: true, encoding: 'utf8' }).filter(
      (file) => file.endsWith('.js') && !file.includes('workflow-bundle'),
    );
    expect(files).toContain('api/main.js');
    const named = files.filter((file) =>
      /\b(?:test|bench|examples)\//.test(readFileSync(join(image.folder, 'dist', file), 'utf8')),
    );
    expect(named).toEqual([]);
  });

  test('are enough for the migrations, and for an API and a worker that become healthy, answer and stop on SIGTERM', async () => {
    const [apiPort, metricsPort, workerPort, sdkPort] = await freePorts(4);
    /** The environment of the compose file, with the hosts and secrets of this machine. */
    const envOf = (name: string): Record<string, string> => ({
      ...serviceOf(name).environment,
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: temporalAddress(),
      MASTER_KEYS,
      ...(name === 'api' && { OPERATOR_KEY: 'o'.repeat(40) }),
      // The image listens on every address of its container; a test listens on the loopback address only.
      API_HOST: '127.0.0.1',
      WORKER_HOST: '127.0.0.1',
      API_PORT: String(apiPort),
      API_METRICS_PORT: String(metricsPort),
      WORKER_PORT: String(workerPort),
      WORKER_SDK_METRICS_ADDRESS: `127.0.0.1:${sdkPort}`,
      TASK_QUEUE: `test-compose-${apiPort}`,
      LOG_LEVEL: 'error',
    });
    const checks: Readonly<Record<string, () => Promise<void>>> = {
      api: () => checkApi(`http://127.0.0.1:${apiPort}`),
      worker: async () => {
        const sdk = await (await fetch(`http://127.0.0.1:${sdkPort}/metrics`)).text();
        expect(sdk).toMatch(/temporal_num_pollers|temporal_worker_task_slots_available/);
      },
    };
    expect(await exitOf(run(serviceOf('migrate').command ?? [], envOf('migrate')))).toBe(0);
    for (const [name, checkAnswers] of Object.entries(checks)) {
      const { command = [], healthcheck } = serviceOf(name);
      const child = run(command, envOf(name));
      const isHealthy = (healthcheck?.test ?? []).slice(1);
      await until(`${name} to be healthy`, async () => {
        if (child.exitCode !== null) throw new Error(`${name} ended with code ${child.exitCode}`);
        return (await exitOf(run(isHealthy, envOf(name)))) === 0;
      });
      await checkAnswers();
      child.kill('SIGTERM');
      expect(await exitOf(child)).toBe(0);
      expect(await exitOf(run(isHealthy, envOf(name)))).toBe(1);
    }
  });

  /** Fetches everything that the API reads from files of the image or creates at the first request. */
  async function checkApi(url: string): Promise<void> {
    const readPage = async (path: string): Promise<string> => {
      const response = await fetch(`${url}${path}`);
      expect([path, response.status]).toEqual([path, 200]);
      return response.text();
    };
    const page = await readPage('/console');
    const assets = [...page.matchAll(/"(\/console\/assets\/[^"]+)"/g)].map((match) => match[1] ?? '');
    expect(assets.map((path) => path.split('.').at(-1)).sort()).toEqual(['css', 'js', 'svg']);
    for (const asset of assets) expect((await readPage(asset)).length).toBeGreaterThan(100);
    expect(JSON.parse(await readPage('/openapi.json'))).toMatchObject({ openapi: expect.any(String) });
    expect(await readPage('/docs')).toContain('</html>');
  }
});
