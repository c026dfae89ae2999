// Builds the folder that the Docker image holds, without Docker: follows the Dockerfile's COPY and RUN lines in temporary
// folders, one for each stage. `npm ci` becomes links to the packages that are installed in this project.

import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { promisify } from 'node:util';
import { Copy, DockerfileParser, Env, From, type Instruction } from 'dockerfile-ast';
import { PROJECT_ROOT } from '../../worker/local/project-root';

export interface ImageFolder {
  /** The working folder of the image's last stage. */
  readonly folder: string;
  /** The variables that the last stage sets. */
  readonly env: Readonly<Record<string, string>>;
  remove(): void;
}

/** Builds every stage of the project's Dockerfile. Compiles the product, which takes about 20 s. */
export async function buildImageFolder(): Promise<ImageFolder> {
  const root = mkdtempSync(join(tmpdir(), 'image-'));
  const stages = new Map<string, string>();
  let folder = root;
  let workdir = '/';
  let env: Record<string, string> = {};
  const text = readFileSync(join(PROJECT_ROOT, 'Dockerfile'), 'utf8');
  for (const instruction of DockerfileParser.parse(text).getInstructions()) {
    const content = instruction.getArgumentsContent() ?? '';
    if (instruction instanceof From) {
      const name = instruction.getBuildStage() ?? 'image';
      folder = join(root, name);
      mkdirSync(folder);
      stages.set(name, folder);
      [workdir, env] = ['/', {}];
    } else if (instruction instanceof Copy) {
      copy(instruction, stages, folder, workdir);
    } else if (instruction instanceof Env) {
      for (const property of instruction.getProperties()) env[property.getName()] = property.getValue() ?? '';
    } else if (instruction.getKeyword() === 'WORKDIR') {
      workdir = content;
    } else if (instruction.getKeyword() === 'RUN') {
      await run(content, folder);
    }
  }
  return { folder, env, remove: () => rmSync(root, { recursive: true, force: true }) };
}

/** Runs one COPY line. A path of the image below the working folder is the same path below the folder of the stage. */
function copy(instruction: Copy, stages: ReadonlyMap<string, string>, folder: string, workdir: string): void {
  const from = instruction.getFlags().find((flag) => flag.getName() === 'from');
  const paths = argumentsOf(instruction);
  const target = paths.pop() ?? '';
  for (const path of paths) {
    const source = join(sourceFolder(from?.getValue(), stages), from ? relative(workdir, path) : path);
    const isFolder = basename(path) === '.' || !target.endsWith('/');
    const copied = join(folder, target, isFolder ? '' : basename(path));
    mkdirSync(dirname(copied), { recursive: true });
    cpSync(source, copied, {
      recursive: true,
      verbatimSymlinks: true,
      ...(!from && { filter: (file: string) => !isIgnored(relative(PROJECT_ROOT, file)) }),
    });
  }
}

function sourceFolder(stage: string | null | undefined, stages: ReadonlyMap<string, string>): string {
  if (stage === null || stage === undefined) return PROJECT_ROOT;
  const folder = stages.get(stage);
  if (folder === undefined) throw new Error(`the Dockerfile copies from the unknown stage ${stage}`);
  return folder;
}

/** Whether .dockerignore keeps this path of the project out of the build. */
function isIgnored(path: string): boolean {
  const patterns = readFileSync(join(PROJECT_ROOT, '.dockerignore'), 'utf8').split('\n').filter(Boolean);
  return patterns.some((pattern) =>
    pattern.startsWith('*.')
      ? !path.includes('/') && path.endsWith(pattern.slice(1))
      : path === pattern || path.startsWith(`${pattern}/`),
  );
}

/** Runs one RUN line. Does not install system packages; this machine has them. @throws Error for an unknown command */
async function run(command: string, folder: string): Promise<void> {
  if (command.startsWith('apt-get ')) return;
  const words = command.split(' ');
  if (command.startsWith('npm ci')) {
    linkPackages(folder, words.includes('--omit=dev'), words.includes('--omit=optional'));
    return;
  }
  const [program = '', ...args] = words;
  if (program !== 'npm') throw new Error(`the Dockerfile runs a command that this test does not know: ${command}`);
  await promisify(execFile)(program, args, { cwd: folder, env: { PATH: process.env['PATH'], HOME: folder } });
}

interface LockedPackage {
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly devOptional?: boolean;
}

/** Links the packages that `npm ci` would install. A package that is left out cannot be imported from this folder. */
function linkPackages(folder: string, omitsDev: boolean, omitsOptional: boolean): void {
  const installed = realpathSync(join(PROJECT_ROOT, 'node_modules'));
  if (!omitsDev && !omitsOptional) {
    symlinkSync(installed, join(folder, 'node_modules'));
    return;
  }
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockedPackage>;
  };
  for (const [path, { dev, optional, devOptional }] of Object.entries(lock.packages)) {
    if (path.lastIndexOf('node_modules/') !== 0) continue;
    if ((dev && omitsDev) || (optional && omitsOptional) || (devOptional && omitsDev && omitsOptional)) continue;
    const source = resolve(installed, '..', path);
    if (!existsSync(source)) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    symlinkSync(source, join(folder, path));
  }
}

function argumentsOf(instruction: Instruction): string[] {
  return instruction.getArguments().map((argument) => argument.getValue());
}
