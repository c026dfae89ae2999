// Starts another process that owns servers or folders of worker/local, so that a test can kill it with SIGKILL.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const ROOT = join(__dirname, '..', '..');

// The child is outside of jest, and node can't load TypeScript.
const LOAD_TYPESCRIPT = `
const swc = require(${JSON.stringify(require.resolve('@swc/core'))});
require.extensions['.ts'] = (module, file) => module._compile(
  swc.transformFileSync(file, { jsc: { parser: { syntax: 'typescript' }, target: 'es2022' }, module: { type: 'commonjs' } }).code,
  file,
);
const load = (name) => require(${JSON.stringify(join(ROOT, 'worker', 'local'))} + '/' + name + '.ts');
`;

export interface Owner {
  readonly pid: number;
  /** The pids of the servers that it started, or its own. */
  readonly owned: readonly number[];
  /** Sends SIGKILL and resolves when the process has ended. */
  kill(): Promise<void>;
}

/** Runs `body` in a process that stays alive. It is the body of an async function that may call `load('module')` and returns pids separated by spaces. */
export async function startOwner(body: string): Promise<Owner> {
  const script = `${LOAD_TYPESCRIPT}
    (async () => { ${body} })().then(
      (pid) => { console.log('owned ' + pid); setInterval(() => {}, 1000); },
      (error) => { console.log('failed ' + error.message.replaceAll('\\n', ' ')); process.exit(1); },
    );`;
  const child = spawn(process.execPath, ['-e', script], { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL');
    await ended;
  };
  for await (const line of createInterface({ input: child.stdout })) {
    const owned = /^owned ([\d ]+)$/.exec(line)?.[1];
    if (owned !== undefined && child.pid !== undefined) {
      return { pid: child.pid, owned: owned.split(' ').map(Number), kill };
    }
    if (line.startsWith('failed ')) {
      await kill();
      throw new Error(line);
    }
  }
  throw new Error('the owner process ended without output');
}
