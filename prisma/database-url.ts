// Reads a database URL and explains failures with it. No message made here holds the password.
// migrate.ts and client.ts use this before they have a connection.

/** A database that could not be reached or used. The message is for the operator. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable';
}

/** How long a single connection for one task (a migration, reading the version) may take to open. */
export const CONNECT_TIMEOUT_MS = 10_000;

export interface DatabaseUrl {
  /** As configured, password included. */
  readonly url: string;
  /** `host:port/database`, fit for a log. */
  readonly label: string;
}

/** Throws DatabaseUnavailable for anything that is not a Postgres URL. */
export function parseDatabaseUrl(url: string): DatabaseUrl {
  const authority = /^postgres(?:ql)?:\/\/[^/?#]*/.exec(url)?.[0];
  if (authority === undefined) {
    throw new DatabaseUnavailable('The database URL must begin with postgres:// or postgresql://');
  }
  // A password with a bare / ? or # ends the authority early, and the rest of it would be read as a host.
  const misread = url.slice(authority.length).includes('@');
  const parsed = misread || !URL.canParse(url) ? undefined : new URL(url);
  if (parsed === undefined) {
    throw new DatabaseUnavailable(
      'The database URL can not be read: special characters in its user and password must be percent-encoded',
    );
  }
  const host = parsed.searchParams.get('host') ?? (parsed.hostname === '' ? 'localhost' : parsed.hostname);
  const port = parsed.port === '' ? (parsed.searchParams.get('port') ?? '5432') : parsed.port;
  return { url, label: `${host}:${port}${parsed.pathname}` };
}

/** Adds `-c name=value` settings after the URL's own options, which would otherwise replace them all. */
export function addSessionSettings(url: string, settings: Readonly<Record<string, string | number>>): string {
  const parsed = new URL(url);
  const own = parsed.searchParams.get('options');
  const added = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  parsed.searchParams.set('options', [...(own === null ? [] : [own]), ...added].join(' '));
  return parsed.toString();
}

/** The SQLSTATE or system code of an error thrown by `pg`, if it has one. */
export function errorCode(error: unknown): string | undefined {
  if (error instanceof AggregateError && error.errors.length > 0) return errorCode(error.errors[0]);
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

function errorMessage(error: unknown): string {
  // Node's "happy eyeballs" fails with one error per address and no message of its own.
  if (error instanceof AggregateError) return error.errors.map(errorMessage).join('; ');
  return error instanceof Error ? error.message : String(error);
}

/** Explains why a first connection failed. The cause is not attached: some causes hold the URL. */
export function explainConnectionFailure(database: DatabaseUrl, error: unknown): DatabaseUnavailable {
  const { label } = database;
  const reason = errorMessage(error);
  const code = errorCode(error);
  if (code === '28P01' || code === '28000') {
    return new DatabaseUnavailable(`Postgres at ${label} refused the user or the password: ${reason}`);
  }
  if (code === '3D000') return new DatabaseUnavailable(`Postgres at ${label} has no such database: ${reason}`);
  return new DatabaseUnavailable(`Postgres at ${label} can not be reached: ${reason}`);
}

/** The oldest server on which the migrations and statements were tested. */
const OLDEST_SERVER = 150000;

/** Throws DatabaseUnavailable for a server older than this code needs. `version` is `server_version_num`. */
export function refuseOldServer(database: DatabaseUrl, version: number): void {
  if (version >= OLDEST_SERVER) return;
  throw new DatabaseUnavailable(
    `Postgres at ${database.label} is version ${Math.floor(version / 10000)}; 15 or newer is needed`,
  );
}
