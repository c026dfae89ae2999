// Compiles a few of the project's sources for a test that starts one program with plain node. The whole build takes ten
// seconds, a few files take some milliseconds.

import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { transformFileSync } from '@swc/core';
import { PROJECT_ROOT } from '../../worker/local/project-root';

/** Compiles sources to the same paths below `<root>/dist`. A source is a path in the project without `.ts`. */
export function compileSources(root: string, sources: readonly string[]): void {
  symlinkSync(join(PROJECT_ROOT, 'node_modules'), join(root, 'node_modules'));
  for (const source of sources) {
    const { code } = transformFileSync(join(PROJECT_ROOT, `${source}.ts`), {
      jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
      // `import()` is not compiled, as with tsc.
      module: { type: 'commonjs', ignoreDynamic: true },
      swcrc: false,
    });
    const path = join(root, 'dist', `${source}.js`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, code);
  }
}

/** Compiles the file parser and returns the path of its main file. */
export function compileFileParser(root: string): string {
  const folder = 'worker/file-parser';
  compileSources(
    root,
    readdirSync(join(PROJECT_ROOT, folder)).map((name) => `${folder}/${name.replace(/\.ts$/, '')}`),
  );
  return join(root, 'dist', folder, 'main.js');
}
