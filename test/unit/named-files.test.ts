// Every source file that a comment names exists, so that no comment refers to a moved file. The product also names no file
// of the folders that are not part of it.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../worker/local/project-root';

const PRODUCT = ['workflows', 'activities', 'api', 'prisma', 'worker'];
const AROUND = ['test', 'bench', 'examples'];
const SOURCE = /\.(?:tsx?|sql|prisma)$/;

const filesOf = (folders: readonly string[]): string[] =>
  folders.flatMap((folder) =>
    readdirSync(join(PROJECT_ROOT, folder), { recursive: true, encoding: 'utf8' })
      .map((file) => `${folder}/${file}`)
      .filter((file) => SOURCE.test(file) && !file.startsWith('prisma/generated/')),
  );
const linesOf = (file: string): string[] => readFileSync(join(PROJECT_ROOT, file), 'utf8').split('\n');

/** A source file with or without its folder, or a compiled file in dist or build. Absolute paths are examples. */
const NAME =
  /(?<![\w./@$*-])(?:[\w-]+\/)*[a-z\d][\w-]*(?:\.[\w-]+)*\.(?:tsx?|sql)\b(?![/(])|\b(?:dist|build)\/[\w./-]+\.js\b/g;
const COMMENT = /^\s*(?:\/\*\*|\*|--)\s.*|(?<!:)\/\/\s.*/;
const STRING = /(['"`])(?:(?!\1).)*\1/g;

/** The names of files in the comments of a line, and the paths in its strings. */
function namesIn(line: string): string[] {
  const comment = COMMENT.exec(line)?.[0] ?? '';
  const code = line.slice(0, line.length - comment.length);
  const strings = code.match(STRING) ?? [];
  return [
    ...(comment.match(NAME) ?? []),
    ...strings.flatMap((string) => string.match(NAME) ?? []).filter((name) => name.includes('/')),
  ];
}

test('every file that a comment or a string names exists', () => {
  const files = filesOf([...PRODUCT, ...AROUND]);
  // Their samples name files that do not exist.
  const checked = files.filter((file) => !/unit\/(documents|word-lint)\.test\.ts$/.test(file));
  const exists = (name: string): boolean => {
    const compiled = /^(?:dist|build)\/(.+)\.js$/.exec(name)?.[1];
    const wanted = compiled === undefined ? [name] : [`${compiled}.ts`, `${compiled}.tsx`];
    return files.some((file) => wanted.some((each) => file === each || file.endsWith(`/${each}`)));
  };
  const named = checked.flatMap((file) =>
    linesOf(file).flatMap((line, index) =>
      namesIn(line).map((name) => ({ name, at: `${file}:${index + 1} names ${name}` })),
    ),
  );
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter(({ name }) => !exists(name)).map(({ at }) => at)).toEqual([]);
});

test('the product names no path of the tests, benchmarks, or examples', () => {
  const named = filesOf(PRODUCT).flatMap((file) =>
    linesOf(file)
      .map((line, index) => ({ line, at: `${file}:${index + 1}` }))
      .filter(({ line }) => /\b(?:test|bench|examples)\//.test(line))
      .map(({ at }) => at),
  );
  expect(named).toEqual([]);
});
