// Compares the import table of ARCHITECTURE.md with lint: for each cell a probe file is linted with .oxlintrc.json.

import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { readProjectFile, ROOT } from '../support/documents';

/** The folder of the probe files of each row. */
const ROWS: Readonly<Record<string, string>> = {
  workflows: 'workflows',
  activities: 'activities',
  prisma: 'prisma/store/runs',
  api: 'api/routes',
  worker: 'worker',
};

/** The modules that the probe files of each column import. */
const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  'workflow code': ['workflows/agent-run', 'workflows/proxies', 'workflows/index'],
  'contract, messages, policy': ['workflows/contract', 'workflows/messages', 'workflows/policy/steps'],
  activities: ['activities/step'],
  'prisma/store': ['prisma/store/rooms/rooms'],
  api: ['api/route'],
  worker: ['worker/loop', 'worker/temporal/settings', 'worker/telemetry/wanted'],
};

/** What each cell allows of each module of its column. */
const ALLOWED: Readonly<Record<string, (module: string) => { value: boolean; type: boolean }>> = {
  yes: () => ({ value: true, type: true }),
  no: () => ({ value: false, type: false }),
  'type only': () => ({ value: false, type: true }),
  'temporal, telemetry': (module) => {
    const isShared = /^worker\/(temporal|telemetry)\//.test(module);
    return { value: isShared, type: isShared };
  },
};

function readTable(): { row: string; column: string; cell: string }[] {
  const lines = readProjectFile('ARCHITECTURE.md').split('\n');
  const from = lines.findIndex((line) => line.startsWith('| from ↓ to →'));
  const cellsOf = (line: string): string[] =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
  const [, ...columns] = cellsOf(lines[from] ?? '');
  const rows = lines.slice(from + 2, from + 2 + Object.keys(ROWS).length).map(cellsOf);
  return rows.flatMap(([row = '', ...cells]) => columns.map((column, at) => ({ row, column, cell: cells[at] ?? '' })));
}

/** The probe files in which lint refuses an import. */
function lintProbes(probes: ReadonlyMap<string, string>): Set<string> {
  const folder = mkdtempSync(join(tmpdir(), 'import-table-'));
  try {
    copyFileSync(join(ROOT, '.oxlintrc.json'), join(folder, '.oxlintrc.json'));
    for (const [path, text] of probes) {
      mkdirSync(join(folder, dirname(path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    const oxlint = join(ROOT, 'node_modules', '.bin', 'oxlint');
    let output: string;
    try {
      output = execFileSync(oxlint, ['-f', 'json', '.'], { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
    } catch (error) {
      // Exit code 1: lint found a violation.
      output = String((error as { stdout?: unknown }).stdout);
    }
    const { diagnostics } = JSON.parse(output) as { diagnostics: { code: string; filename: string }[] };
    return new Set(
      diagnostics.filter(({ code }) => code.includes('no-restricted-imports')).map(({ filename }) => filename),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('lint enforces each cell of the import table', () => {
  const table = readTable();
  expect(table).toHaveLength(Object.keys(ROWS).length * Object.keys(COLUMNS).length);
  const probes = new Map<string, string>();
  const expected = new Map<string, boolean>();
  for (const { row, column, cell } of table) {
    const folder = ROWS[row];
    const modules = COLUMNS[column];
    const allowed = ALLOWED[cell];
    if (folder === undefined || modules === undefined || allowed === undefined) {
      throw new Error(`the table has an unknown cell: ${row} → ${column}: ${cell}`);
    }
    const up = folder.replaceAll(/[^/]+/g, '..');
    for (const module of modules) {
      for (const kind of ['value', 'type'] as const) {
        const path = `${folder}/probe-${kind}-${module.replaceAll('/', '-')}.ts`;
        const clause = kind === 'type' ? 'type { Probe }' : '{ probe }';
        const use = kind === 'type' ? 'export type Used = Probe;' : 'export const used = probe;';
        probes.set(path, `import ${clause} from '${up}/${module}';\n${use}\n`);
        expected.set(path, allowed(module)[kind]);
      }
    }
  }
  const refused = lintProbes(probes);
  const wrong = [...expected].filter(([path, allowed]) => refused.has(path) === allowed).map(([path]) => path);
  expect(wrong).toEqual([]);
});
