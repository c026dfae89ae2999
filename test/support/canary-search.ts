// Searches for secrets in everything that a deployment leaves behind: texts, bytes, objects, a database. The tests of this
// search hide every form in every kind of value, so that an empty result is a proof.

import pg from 'pg';

/** Shorter than the random part of a secret; longer than any text that matches by chance. */
const PIECE_LENGTH = 16;

/** Every encoding in which a secret has been found in practice, by name. */
export function formsOf(secret: string): ReadonlyMap<string, string> {
  const json = escapeJson(secret);
  const forms = new Map([
    ['plain', secret],
    // Logs shorten long values, so a beginning or an end alone counts.
    ['its beginning', secret.slice(0, PIECE_LENGTH)],
    ['its end', secret.slice(-PIECE_LENGTH)],
    ['JSON', json],
    ['JSON in JSON', escapeJson(json)],
    ['URL', encodeURIComponent(secret)],
    ['URL in a URL', encodeURIComponent(encodeURIComponent(secret))],
    ['URI', encodeURI(secret)],
    ['form', new URLSearchParams({ k: secret }).toString().slice(2)],
    ['HTML', secret.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)],
    ['hex', Buffer.from(secret).toString('hex')],
    ['reversed', Array.from(secret).reverse().join('')],
  ]);
  // In base64, the same bytes have other letters after a prefix of another length.
  for (const before of [0, 1, 2]) {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]);
    const whole = bytes.toString('base64').replace(/=+$/, '');
    const inside = whole.slice(before === 0 ? 0 : before + 1, -2);
    forms.set(`base64, ${before} in`, inside);
    forms.set(`base64url, ${before} in`, inside.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return forms;
}

function escapeJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Where these secrets were found, as `location: form`. A location may hold any value. */
export function findSecrets(locations: Readonly<Record<string, unknown>>, secrets: readonly string[]): string[] {
  const needles = secrets.flatMap((secret, n) =>
    [...formsOf(secret)].map(([form, text]) => ({ name: `secret ${n + 1}, ${form}`, text: text.toLowerCase() })),
  );
  const found = new Set<string>();
  for (const [location, value] of Object.entries(locations)) {
    for (const text of textsOf(value)) {
      const lower = text.toLowerCase();
      for (const { name, text: needle } of needles) if (lower.includes(needle)) found.add(`${location}: ${name}`);
    }
  }
  return [...found];
}

/** Every text in a value at any depth: strings, bytes read as text, and the names of fields. */
export function* textsOf(value: unknown, seen = new Set<object>()): Generator<string> {
  if (typeof value === 'string') yield value;
  if (typeof value !== 'object' || value === null || seen.has(value)) return;
  seen.add(value);
  if (value instanceof Uint8Array || Buffer.isBuffer(value)) {
    yield Buffer.from(value).toString('utf8');
    yield Buffer.from(value).toString('latin1');
    return;
  }
  // All own names, not only enumerable ones: the message and the cause of an error are not enumerable.
  const fields =
    value instanceof Map ? value : Object.getOwnPropertyNames(value).map((name) => [name, Reflect.get(value, name)]);
  for (const [name, inner] of fields as Iterable<[unknown, unknown]>) {
    if (typeof name === 'string') yield name;
    yield* textsOf(inner, seen);
  }
}

/** Every row of every table, with all columns, by table. */
export async function dumpDatabase(url: string): Promise<Record<string, unknown[]>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`,
    );
    const dump: Record<string, unknown[]> = {};
    for (const { name } of tables)
      dump[`table ${name}`] = (await client.query(`SELECT * FROM ${name}`)).rows as unknown[];
    return dump;
  } finally {
    await client.end();
  }
}
