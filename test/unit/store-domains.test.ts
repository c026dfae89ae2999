// The domain folders of prisma/store import each other in one direction only.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, sep } from 'node:path';

const STORE = join(__dirname, '../../prisma/store');

/** From low to high: a folder imports only folders before it. */
const ORDER = ['db', 'access', 'eligibility', 'rooms', 'files', 'model-keys', 'reports', 'runs', 'lifecycle'];

function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name));
}

function domainOf(file: string): string {
  return file.slice(STORE.length + 1).split(sep)[0] ?? '';
}

test('the order names every folder', () => {
  expect(readdirSync(STORE).sort()).toEqual([...ORDER].sort());
});

test('no folder imports a folder above it', () => {
  const upward = filesOf(STORE).flatMap((file) => {
    const imported = [...readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g)]
      .map(([, path = '']) => normalize(join(dirname(file), path)))
      .filter((path) => path.startsWith(STORE + sep));
    return imported
      .filter((path) => ORDER.indexOf(domainOf(path)) > ORDER.indexOf(domainOf(file)))
      .map((path) => `${file.slice(STORE.length + 1)} imports ${path.slice(STORE.length + 1)}`);
  });
  expect(upward).toEqual([]);
});
