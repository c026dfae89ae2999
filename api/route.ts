// What a route is: a path, who may call it, the schemas of what it takes, and what it does. Mounted in one place, so that
// every route checks in the same order: the key's role, the ids in the path, the input, and only then the store.

import type { Express, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { PriceTable } from '../prisma/prices';
import type { SecretBox } from '../prisma/secret-box';
import { appendAudit, type AuditRecord } from '../prisma/store/audit';
import { isId, type IdPrefix } from '../prisma/store/ids';
import { inStatement, inTransaction, type Db, type Reader, type Tx } from '../prisma/store/transaction';
import { actorOf, assertMay, type CallerFor, type Who } from './callers';
import { readQuery } from './input-checks';
import { callerOf } from './middleware/authentication';
import { parseJson, readBody } from './middleware/json-body';
import { Problem, problemOfIssues } from './problems';

export interface ApiDeps {
  readonly db: Db;
  readonly secretBox: SecretBox;
  /** Name to base URL, as the operator configured them. */
  readonly providers: ReadonlyMap<string, string>;
  /** `host:port` that an owner-supplied address may name although it is inside, or not https. */
  readonly allowedModelHosts: readonly string[];
  /** What models cost, as far as the operator says. */
  readonly prices: PriceTable;
  readonly log: Logger;
}

/** The ids that paths hold, and the kind of each. */
const PATH_IDS = {
  company: 'co',
  key: 'key',
  model_key: 'mk',
  agent: 'agent',
  room: 'room',
  message: 'msg',
  task: 'task',
  entry: 'mem',
  wake: 'wake',
  run: 'run',
  held_action: 'held',
} as const satisfies Record<string, IdPrefix>;

type PathId = keyof typeof PATH_IDS;

/** As the store says it of an id that nothing has. */
const MISSING: Readonly<Record<PathId, string>> = {
  company: 'no such company',
  key: 'no such key',
  model_key: 'no such model key',
  agent: 'no such agent',
  room: 'no such room',
  message: 'no such message in this room',
  task: 'no such task in this room',
  entry: 'no such memory entry in this room',
  wake: 'no such wake',
  run: 'no such run',
  held_action: 'no such held action',
};

type IdsIn<P extends string> = P extends `${string}:${infer Rest}`
  ? Rest extends `${infer Id}/${infer After}`
    ? Id | IdsIn<After>
    : Rest
  : never;

/** One request, checked. */
export interface Call<P extends string, W extends Who, B, Q> {
  readonly caller: CallerFor<W>;
  readonly ids: Readonly<Record<IdsIn<P>, string>>;
  readonly body: B;
  readonly query: Q;
}

export interface Answer {
  readonly status: 200 | 201 | 204;
  readonly body?: unknown;
  /** What was asked for had been done before: nothing changed, so the audit has nothing to say. */
  readonly repeated?: boolean;
}

export interface Route {
  readonly method: 'get' | 'post' | 'patch' | 'delete';
  readonly path: string;
  readonly who: Who;
  /** Null: it takes no body. */
  readonly body: z.ZodType | null;
  readonly query: z.ZodType;
  /** In one transaction: a write and all that must stand or fall with it. */
  readonly handle: (reader: Reader, call: Call<string, Who, unknown, unknown>) => Promise<Answer>;
  /** What the audit says of it, in the same transaction. Null: it belongs to the room's feed, or is only a read. */
  readonly audit: Audit<string, Who, unknown> | null;
}

/** Tells the audit what a person or the operator did, from the call and its answer's body. */
type Audit<P extends string, W extends Who, B> = (call: Call<P, W, B, unknown>, answer: Answered) => AuditRecord;
/** An answer's body as a record of it may read it. */
type Answered = Readonly<Record<string, unknown>> & { readonly id: string };

const noQuery = z.strictObject({});
/** A POST that says all in its path: no body, or an empty object. */
const noBody = z.strictObject({}).optional();

/** A route that only reads. */
export function readRoute<const P extends string, W extends Who, Q extends z.ZodType = typeof noQuery>(route: {
  readonly path: P;
  readonly who: W;
  readonly query?: Q;
  readonly handle: (db: Reader, call: Call<P, W, undefined, z.output<Q>>) => Promise<Answer>;
}): Route {
  return {
    ...route,
    method: 'get',
    body: null,
    query: route.query ?? noQuery,
    audit: null,
    handle: route.handle as Route['handle'],
  };
}

/**
 * A route that writes. `handle` runs in one transaction, and again after a deadlock: it may act through it alone.
 */
export function writeRoute<const P extends string, W extends Who, B extends z.ZodType = typeof noBody>(route: {
  readonly method: 'post' | 'patch' | 'delete';
  readonly path: P;
  readonly who: W;
  readonly body?: B;
  readonly audit: Audit<P, W, z.output<B>> | null;
  readonly handle: (tx: Tx, call: Call<P, W, z.output<B>, unknown>) => Promise<Answer>;
}): Route {
  return {
    ...route,
    body: route.body ?? noBody,
    query: noQuery,
    audit: route.audit as Route['audit'],
    handle: route.handle as Route['handle'],
  };
}

/** Mounts routes, and 405 on their paths for every other method. */
export function mountRoutes(app: Express, deps: ApiDeps, routes: readonly Route[]): void {
  for (const path of new Set(routes.map((route) => route.path))) {
    const onPath = routes.filter((route) => route.path === path);
    const mounted = app.route(path);
    for (const route of onPath) {
      const readsBody = route.method === 'post' || route.method === 'patch';
      mounted[route.method](...(readsBody ? [assertCaller(route), readBody] : []), handler(deps, route));
    }
    const methods = onPath.map((route) => route.method.toUpperCase());
    const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : [])].join(', ');
    mounted.all(refuseMethod(allow));
  }
}

/** Answers with 405 what no route on a path took. */
export function refuseMethod(allow: string): RequestHandler {
  return () => {
    throw new Problem('method_not_allowed', `this takes ${allow}`, { headers: { Allow: allow } });
  };
}

/** Before a body is read: nobody sends us a megabyte for nothing. */
function assertCaller(route: Route): RequestHandler {
  return (_req, res, next) => {
    assertMay(route.who, callerOf(res));
    next();
  };
}

function handler(deps: ApiDeps, route: Route): RequestHandler {
  return async (req, res) => {
    const caller = callerOf(res);
    assertMay(route.who, caller);
    const ids = checkIds(req.params);
    const query = parseWith(route.query, readQuery(req.url), 'parameters');
    const body = route.body === null ? undefined : parseBody(route.body, parseJson(req));
    const call = { caller, ids, body, query };
    const answer =
      route.method === 'get'
        ? await inStatement(route.handle(deps.db, call))
        : await inTransaction(deps.db, (tx) => write(tx, route, call));
    send(res, answer);
  };
}

async function write(tx: Tx, route: Route, call: Call<string, Who, unknown, unknown>): Promise<Answer> {
  const answer = await route.handle(tx, call);
  if (route.audit !== null && answer.repeated !== true) {
    await appendAudit(tx, actorOf(call.caller), route.audit(call, (answer.body ?? {}) as Answered));
  }
  return answer;
}

function checkIds(params: Readonly<Record<string, string | string[]>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      const kind = PATH_IDS[name as PathId];
      if (typeof value !== 'string' || !isId(kind, value)) throw new Problem('not_found', MISSING[name as PathId]);
      return [name, value];
    }),
  );
}

function parseBody(schema: z.ZodType, body: unknown): unknown {
  if (body === undefined && !schema.safeParse(undefined).success) {
    throw new Problem('malformed_body', 'a JSON object is needed as the body');
  }
  if (body !== undefined && (body === null || typeof body !== 'object' || Array.isArray(body))) {
    throw new Problem('invalid_input', 'the body must be a JSON object', { place: { pointer: '' } });
  }
  return parseWith(schema, body, 'body');
}

function parseWith(schema: z.ZodType, input: unknown, part: 'body' | 'parameters'): unknown {
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw problemOfIssues(parsed.error.issues, part);
  return parsed.data;
}

function send(res: Response, { status, body }: Answer): void {
  res.status(status);
  if (body === undefined) res.end();
  else res.type('application/json').send(JSON.stringify(body));
}
