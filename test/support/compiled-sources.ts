// A few of the project's sources, compiled for plain node, for a test that starts one program: the whole build takes ten
// seconds, these files some milliseconds.

import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { transformFileSync } from '@swc/core';
import { PROJECT_ROOT } from '../../worker/local/project-root';

/** Compiles sources, named by their path in the project without `.ts`, into the same path below `<root>/dist`. */
export function compileSources(root: string, sources: readonly string[]): void {
  symlinkSync(join(PROJECT_ROOT, 'node_modules'), join(root, 'node_modules'));
  for (const source of sources) {
    const { code } = transformFileSync(join(PROJECT_ROOT, `${source}.ts`), {
      jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
      // As tsc: `import()` stays what it is.
      module: { type: 'commonjs', ignoreDynamic: true },
      swcrc: false,
    });
    const path = join(root, 'dist', `${source}.js`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, code);
  }
}

/** Compiles the program that reads a file, and returns the path to start. */
export function compileFileParser(root: string): string {
  const folder = 'worker/file-parser';
  compileSources(
    root,
    readdirSync(join(PROJECT_ROOT, folder)).map((name) => `${folder}/${name.replace(/\.ts$/, '')}`),
  );
  return join(root, 'dist', folder, 'main.js');
}
