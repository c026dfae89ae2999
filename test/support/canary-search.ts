// Looks for secrets in whatever a deployment leaves behind: texts, bytes, whole objects, a database. What finds nothing must
// have been able to find: its tests plant every form in every kind of place.

import pg from 'pg';

/** Shorter than what is random in a secret, longer than what stands anywhere by chance. */
const PIECE_LENGTH = 16;

/** Every way in which a secret was seen to be written down, by name. */
export function formsOf(secret: string): ReadonlyMap<string, string> {
  const json = escapeJson(secret);
  const forms = new Map([
    ['plain', secret],
    // Cut off at its end, as logs shorten long values.
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
  // Behind a prefix of another length the same bytes are written in other letters.
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

/** Where these secrets stand, as `place: form`. A place may hold anything. */
export function findSecrets(places: Readonly<Record<string, unknown>>, secrets: readonly string[]): string[] {
  const needles = secrets.flatMap((secret, n) =>
    [...formsOf(secret)].map(([form, text]) => ({ name: `secret ${n + 1}, ${form}`, text: text.toLowerCase() })),
  );
  const found = new Set<string>();
  for (const [place, holds] of Object.entries(places)) {
    for (const text of textsOf(holds)) {
      const lower = text.toLowerCase();
      for (const { name, text: needle } of needles) if (lower.includes(needle)) found.add(`${place}: ${name}`);
    }
  }
  return [...found];
}

/** Every text in a value: strings, bytes read as text, and the names of fields, however deep. */
export function* textsOf(value: unknown, seen = new Set<object>()): Generator<string> {
  if (typeof value === 'string') yield value;
  if (typeof value !== 'object' || value === null || seen.has(value)) return;
  seen.add(value);
  if (value instanceof Uint8Array || Buffer.isBuffer(value)) {
    yield Buffer.from(value).toString('utf8');
    yield Buffer.from(value).toString('latin1');
    return;
  }
  // Own names, not enumerable ones: an error's message and cause are fields too.
  const fields =
    value instanceof Map ? value : Object.getOwnPropertyNames(value).map((name) => [name, Reflect.get(value, name)]);
  for (const [name, inner] of fields as Iterable<[unknown, unknown]>) {
    if (typeof name === 'string') yield name;
    yield* textsOf(inner, seen);
  }
}

/** Every row of every table, by table, whatever its columns are. */
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
