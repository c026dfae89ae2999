// Everything that a document names exists: paths, links with anchors, npm scripts, commands of `durable-room`, options,
// routes, metrics and environment variables.

import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import {
  codeSpans,
  fencedBlocks,
  headingAnchors,
  listProjectPaths,
  projectPathOf,
  readDocuments,
  readProjectFile,
  relativeLinks,
  ROOT,
  type Document,
} from '../support/documents';
import { allRoutes, type ApiDeps } from '../../api/app';
import { COMMANDS } from '../../worker/cli/commands';

const README_LINES_LIMIT = 150;

const documents = readDocuments();
const paths = listProjectPaths();
/** Metrics that were renamed; the changelog names them. */
const FORMER_METRICS: readonly string[] = ['durable_room_standing'];
/** Outputs of the build are in no commit. */
const BUILD_OUTPUTS: readonly string[] = ['dist', 'build', '.durable-room'];
const folders = new Set([...paths].map((path) => posix.dirname(path)).filter((folder) => folder !== '.'));
const roots = new Set([...folders].filter((path) => !path.includes('/')));
const { scripts } = JSON.parse(readProjectFile('package.json')) as { scripts: Readonly<Record<string, string>> };

/** `GET /v1/rooms/:id`, and the path alone. Routes are data, so no dependency is needed to list them. */
const routes = new Set(
  allRoutes({} as ApiDeps).flatMap((route) => {
    const path = route.path.replaceAll(/:\w+/g, ':id');
    return [path, `${route.method.toUpperCase()} ${path}`];
  }),
);

const cases = documents.map((document) => [document.path, document] as const);

/** The names in the document that the repository lacks. */
function missing(named: Iterable<string>, exists: (name: string) => boolean): string[] {
  return [...new Set(named)].filter((name) => !exists(name)).sort();
}

const document = (path: string): Document => {
  const found = documents.find((each) => each.path === path);
  if (found === undefined) throw new Error(`there is no ${path}`);
  return found;
};

test('there is one document per reader', () => {
  const required = [
    'README.md',
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    'CHANGELOG.md',
    'docs/decisions/README.md',
    ...['concepts', 'api', 'models', 'console', 'mcp', 'temporal', 'operations', 'runbook', 'keys'].map(inDocs),
    ...['usage-and-budgets', 'files-and-search', 'benchmarks', 'crash-lab'].map(inDocs),
  ];
  expect(missing(required, (path) => documents.some((each) => each.path === path))).toEqual([]);
});

function inDocs(name: string): string {
  return `docs/${name}.md`;
}

test('the README is short', () => {
  expect(document('README.md').text.trimEnd().split('\n').length).toBeLessThanOrEqual(README_LINES_LIMIT);
});

test('the README links to every document, and the index of the decisions to every record', () => {
  const linked = new Set(
    ['README.md', 'docs/decisions/README.md'].flatMap((path) =>
      relativeLinks(document(path).text).map((link) => posix.join(posix.dirname(path), link.path)),
    ),
  );
  const expected = documents.map((each) => each.path).filter((path) => path !== 'README.md');
  expect(missing(expected, (path) => linked.has(path))).toEqual([]);
});

describe.each(cases)('%s', (documentPath, { text }) => {
  test('names paths that exist', () => {
    const named = codeSpans(text).flatMap((span) => projectPathOf(span, roots) ?? []);
    expect(missing(named, (name) => paths.has(name) || BUILD_OUTPUTS.includes(name))).toEqual([]);
  });

  test('names compiled files whose source exists', () => {
    const code = [...codeSpans(text), ...fencedBlocks(text, '', 'sh', 'json')].join('\n');
    const named = [...code.matchAll(/\b(?:dist|build)\/([\w/-]+)\.js\b/g)].map(([, name = '']) => `${name}.ts`);
    expect(missing(named, (name) => paths.has(name))).toEqual([]);
  });

  test('names routes that the API has', () => {
    const code = [...codeSpans(text), ...fencedBlocks(text, 'sh')].join('\n');
    const named = [...code.matchAll(/(?:(GET|POST|PATCH|DELETE) |\$API)(\/v1\/[\w/{}$-]+)/g)]
      // A parameter of a shell function is any part of a path.
      .filter(([, , path = '']) => !/\$\d/.test(path))
      .map(([, method = '', path = '']) => `${method} ${path.replaceAll(/\{\w+\}|\$\w+/g, ':id')}`.trim());
    expect(missing(named, (name) => routes.has(name))).toEqual([]);
  });

  test('names metrics that exist', () => {
    const named = codeSpans(text).flatMap((span) => [...span.matchAll(/durable_room_[a-z_]+/g)].map(([name]) => name));
    const former = documentPath === 'CHANGELOG.md' ? FORMER_METRICS : [];
    const channels = new Set(['durable_room_wakes', 'durable_room_events']);
    const exists = (name: string): boolean =>
      former.includes(name) || grepFor(name, ...(channels.has(name) ? ['prisma'] : ['worker', 'api']));
    expect(missing(named, exists)).toEqual([]);
  });

  test('links to files and headings that exist', () => {
    const broken = relativeLinks(text).filter((link) => {
      const target = link.path === '' ? documentPath : posix.join(posix.dirname(documentPath), link.path);
      if (!paths.has(target) || !existsSync(join(ROOT, target))) return true;
      return link.anchor !== null && !headingAnchors(readProjectFile(target)).has(link.anchor);
    });
    expect(broken).toEqual([]);
  });

  test('names npm scripts, commands and test files that exist', () => {
    const commands = [...codeSpans(text), ...fencedBlocks(text, '', 'sh', 'json')].join('\n');
    const named = [...commands.matchAll(/\bnpm (run )?(?:--?[\w-]+ )*([a-z][\w:-]*)/g)]
      .filter(([, run, name = '']) => run !== undefined || name === 'start' || name === 'test')
      .map(([, , name = '']) => name);
    expect(missing(named, (name) => name in scripts)).toEqual([]);
    const programs = [...commands.matchAll(/(?<!\/)\bdurable-room ([a-z][\w-]*)/g)].map(([, name = '']) => name);
    expect(missing(programs, (name) => COMMANDS.some((command) => command.name === name))).toEqual([]);
    const files = [...commands.matchAll(/\bjest ((?:[\w-]+ )*?)((?:test\/[\w./-]+ ?)+)/g)].flatMap(([, , list = '']) =>
      list.trim().split(' '),
    );
    expect(missing(files, (file) => paths.has(file))).toEqual([]);
  });

  test('names options that the commands have', () => {
    const commands = [...codeSpans(text), ...fencedBlocks(text, '')].join('\n');
    const named = [...commands.matchAll(/\bnpm run ([a-z-]+) -- ([^\n]*)/g)].flatMap(([, name = '', rest = '']) =>
      [...rest.matchAll(/--([a-z-]+)/g)].map(([, option = '']) => `${name} --${option}`),
    );
    const exists = (call: string): boolean => {
      const [name = '', option = ''] = call.split(' --');
      const command = COMMANDS.find((each) => each.name === name);
      if (command !== undefined) return option in command.options;
      return grepFor(`--${option}`, 'bench', 'examples', 'test/schemathesis') || grepFor(option, 'bench', 'examples');
    };
    expect(missing(named, exists)).toEqual([]);
  });

  test('names environment variables and constants that the code has', () => {
    const named = [...codeSpans(text), ...fencedBlocks(text, '', 'sh', 'json')].flatMap((code) => variablesIn(code));
    expect(missing(named, isVariable)).toEqual([]);
  });
});

/** Names in ALL_CAPS that are neither variables nor constants of the code. */
const OTHER_NAMES: ReadonlySet<string> = new Set([
  // Shell variables of the examples.
  'MODEL_KEY',
  'HELD_ACTION',
  // Temporal's terms.
  'AUTO_UPGRADE',
  'REJECT_DUPLICATE',
  'RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED',
]);

function variablesIn(code: string): string[] {
  return [...code.matchAll(/(?<![\w$/"'-])\$?\{?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b(?!\*)/g)]
    .map(([, name = '']) => name)
    .filter((name) => !OTHER_NAMES.has(name));
}

/** True for a variable that the code, the compose file or .env.example names, and for a constant of the code. */
function isVariable(name: string): boolean {
  return (
    grepFor(name, 'api', 'worker', 'prisma', 'test/support', '.env.example', 'compose.yaml') ||
    grepFor(`const ${name}`, 'workflows', 'activities')
  );
}

/** The text of every file below a path, read once. */
const texts = new Map<string, string>();
function textBelow(where: string): string {
  const known = texts.get(where);
  if (known !== undefined) return known;
  const files = [...paths].filter((path) => (path === where || path.startsWith(`${where}/`)) && isTextFile(path));
  const text = files.map(readProjectFile).join('\n');
  texts.set(where, text);
  return text;
}

function isTextFile(path: string): boolean {
  return !folders.has(path) && !path.includes('/assets/');
}

/** True if one of these files or folders contains the text as whole words. */
function grepFor(text: string, ...where: readonly string[]): boolean {
  const pattern = new RegExp(`(?<!\\w)${text.replaceAll(/[^\w]/g, '\\$&')}(?!\\w)`);
  return where.some((each) => pattern.test(textBelow(each)));
}

test('every variable that the configurations read is in docs/operations.md, docs/temporal.md or docs/mcp.md', () => {
  const sources = ['api/config.ts', 'worker/config.ts', 'api/mcp/config.ts'].map(readProjectFile).join('\n');
  const read = [...sources.matchAll(/^ {2}([A-Z][A-Z0-9_]+):/gm)].map(([, name = '']) => name);
  expect(read.length).toBeGreaterThan(40);
  const described = ['docs/operations.md', 'docs/temporal.md', 'docs/mcp.md']
    .map((path) => document(path).text)
    .join('\n');
  expect(missing(read, (name) => described.includes(name))).toEqual([]);
});

test('every variable in .env.example is one that the code reads', () => {
  const named = [...readProjectFile('.env.example').matchAll(/^#?([A-Z][A-Z0-9_]+)=/gm)].map(([, name = '']) => name);
  expect(named.length).toBeGreaterThan(30);
  expect(missing(named, (name) => grepFor(name, 'api', 'worker', 'prisma'))).toEqual([]);
});

describe('the checks of this file', () => {
  test('find a path, a heading and a variable that do not exist', () => {
    expect(projectPathOf('worker/no-such-file.ts', roots)).toBe('worker/no-such-file.ts');
    expect(paths.has('worker/no-such-file.ts')).toBe(false);
    expect(headingAnchors('# One\n\n## The `two` things\n').has('the-two-things')).toBe(true);
    expect(relativeLinks('[x](docs/api.md#nothing)')).toEqual([{ path: 'docs/api.md', anchor: 'nothing' }]);
    expect(variablesIn('`NO_SUCH_VARIABLE=1`')).toEqual(['NO_SUCH_VARIABLE']);
    expect(isVariable('NO_SUCH_VARIABLE'.replace('NO', 'REALLY_NO'))).toBe(false);
  });

  test('do not take routes, placeholders and build outputs for paths', () => {
    for (const span of ['/v1/rooms', 'rooms/{room}/events', 'wake/{agent}/{message}', 'npm run build', 'path/to/x.ts'])
      expect(projectPathOf(span, roots)).toBeNull();
    for (const folder of BUILD_OUTPUTS) expect(projectPathOf(`${folder}/x`, roots)).toBeNull();
  });
});
