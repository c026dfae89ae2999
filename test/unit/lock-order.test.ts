// Every row lock of the store is declared, and declared locks are checked against one order.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkedLocks, declareLock, forNoKeyUpdate, forShare, LOCK_ORDER } from '../../prisma/store/db/lock-order';

const STORE = join(__dirname, '../../prisma/store');
const CLAUSE = /FOR (NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)\b(?!.*SKIP LOCKED)/;

const transaction = () => ({ locks: checkedLocks() });

test('a lock that comes before a held lock is refused, and the error names both', () => {
  const tx = transaction();
  declareLock(tx, 'run');
  expect(() => forShare(tx, 'membership')).toThrow('the lock "membership" is taken after "run"');
});

test('the whole order passes, and a lock may be taken again', () => {
  const tx = transaction();
  for (const lock of LOCK_ORDER) declareLock(tx, lock, lock);
  expect(() => declareLock(tx, 'room')).not.toThrow();
});

test('the locks of one statement are checked in their order', () => {
  expect(() => forShare(transaction(), { roster: 'ra', membership: 'm' })).toThrow(
    '"membership" is taken after "roster"',
  );
  expect(forShare(transaction(), { membership: 'm', roster: 'ra' }).sql).toBe('FOR SHARE OF m, ra');
  expect(forNoKeyUpdate(transaction(), 'run').sql).toBe('FOR NO KEY UPDATE');
});

test('no statement of the store writes its own lock clause, unless it skips locked rows', () => {
  const undeclared = readdirSync(STORE, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && name !== join('db', 'lock-order.ts'))
    .flatMap((name) =>
      readFileSync(join(STORE, name), 'utf8')
        .split('\n')
        .flatMap((line, index) => (CLAUSE.test(line) ? [`${name}:${index + 1}: ${line.trim()}`] : [])),
    );
  expect(undeclared).toEqual([]);
});
