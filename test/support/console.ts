// Serves the console of a world over real HTTP. Its client works without a browser: it keeps the cookie and sends forms.

import pino from 'pino';
import { createKey, type KeyToCreate } from '../../prisma/store/access/keys';
import { createStreams, STREAM_SETTINGS } from '../../api/middleware/event-streams';
import type { ApiDeps } from '../../api/app';
import { serveApi } from './api';
import { createWorld, type World } from './world';

/** A served console with its world. */
export interface TestConsole {
  readonly world: World;
  readonly url: string;
  readonly logged: () => string;
  /** Creates a key. */
  keyOf(key: KeyToCreate): Promise<{ id: string; token: string }>;
  /** Creates the key of a person of the room's host company. */
  hostKey(role?: 'admin' | 'member', name?: string): Promise<{ id: string; token: string }>;
  guestKey(): Promise<{ id: string; token: string }>;
  close(): Promise<void>;
}

/** A room of two companies, with the API and its console. */
export async function openConsole(deps: Partial<ApiDeps> = {}): Promise<TestConsole> {
  const world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
  const lines: string[] = [];
  const streams = createStreams({ db: world.db, databaseUrl: world.url }, STREAM_SETTINGS);
  const served = await serveApi({
    db: world.db,
    streams,
    requestsPerMinute: 1_000_000,
    secretBox: world.secretBox,
    providers: new Map(),
    allowedModelHosts: [],
    prices: new Map(),
    log: pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) }),
    ...deps,
  });
  const keyOf = (key: KeyToCreate) =>
    world.db.transaction(async (tx) => {
      const { key: made, token } = await createKey(tx, key);
      return { id: made.id, token };
    });
  return {
    world,
    url: served.url,
    logged: () => lines.join(''),
    keyOf,
    hostKey: (role = 'member', name = 'Mel') => keyOf({ kind: 'person', role, name, companyId: world.host.id }),
    guestKey: () => keyOf({ kind: 'person', role: 'member', name: 'Gus', companyId: world.guest.id }),
    close: async () => {
      await streams.close();
      await served.close();
      await world.close();
    },
  };
}

export interface PageResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly html: string;
  /** The target of a redirect, without the host. */
  readonly location: string | null;
  readonly path: string;
}

export interface Reader {
  /** The cookie that a browser would send. */
  cookie: string | null;
  get(path: string): Promise<PageResponse>;
  /** As `get`, and follows redirects. */
  open(path: string): Promise<PageResponse>;
  /** Sends a form of a page with its inputs and these fields, and follows redirects. */
  submit(page: PageResponse, action: string, fields?: Readonly<Record<string, string>>): Promise<PageResponse>;
  /** Posts any fields to any path. `headers` defaults to the Origin header of a browser. */
  post(path: string, fields: Readonly<Record<string, string>>, headers?: Record<string, string>): Promise<PageResponse>;
  signIn(token: string): Promise<PageResponse>;
}

export function consoleReader(url: string): Reader {
  const request = async (method: string, path: string, init: { body?: string; headers?: Record<string, string> }) => {
    const answer = await fetch(url + path, {
      method,
      redirect: 'manual',
      headers: { ...(reader.cookie !== null && { cookie: reader.cookie }), ...init.headers },
      ...(init.body !== undefined && { body: init.body }),
    });
    const set = answer.headers.get('set-cookie');
    if (set !== null) reader.cookie = /^[^=]+=(;|$)/.test(set) ? null : (set.split(';')[0] ?? null);
    const location = answer.headers.get('location');
    return { status: answer.status, headers: answer.headers, html: await answer.text(), location, path };
  };
  const follow = async (response: PageResponse): Promise<PageResponse> => {
    let at = response;
    for (let hops = 0; at.location !== null && hops < 5; hops += 1) {
      at = await request('GET', at.location.split('#')[0] ?? '', {});
    }
    return at;
  };
  const reader: Reader = {
    cookie: null,
    get: (path) => request('GET', path, {}),
    open: async (path) => follow(await request('GET', path, {})),
    post: (path, fields, headers = { origin: url }) =>
      request('POST', path, {
        body: new URLSearchParams(fields).toString(),
        headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
      }),
    submit: async (page, action, fields = {}) =>
      follow(await reader.post(action, { ...fieldsOf(page.html, action), ...fields })),
    signIn: async (token) => reader.submit(await reader.get('/console/sign-in'), '/console/sign-in', { key: token }),
  };
  return reader;
}

/** The names and values of a form's inputs. @throws Error if the page has no such form */
export function fieldsOf(html: string, action: string): Record<string, string> {
  const form = html.split('<form').find((part) => part.split('>')[0]?.includes(`action="${action}"`));
  if (form === undefined) throw new Error(`the page has no form for ${action}`);
  const inputs = (form.split('</form>')[0] ?? '').matchAll(/<input[^>]*>/g);
  return Object.fromEntries(
    [...inputs].map(([input]) => [attribute(input, 'name') ?? '', attribute(input, 'value') ?? '']),
  );
}

function attribute(tag: string, name: string): string | null {
  const value = new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1];
  return value === undefined ? null : unescaped(value);
}

/** The visible text of a page. */
export function textOf(html: string): string {
  return unescaped(html.replace(/<[^>]*>/g, '')).replace(/[ \t]+/g, ' ');
}

function unescaped(text: string): string {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
}
