// Runs every route of the table in the same order: the caller's role, the ids in the path, the query and body, then the
// route's own handler in its transaction.

import type { Express, Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { isId } from '../../prisma/store/db/ids';
import { inStatement } from '../../prisma/store/db/sql-errors';
import type { SqlTx } from '../../prisma/store/db/transaction';
import { appendAudit } from '../../prisma/store/access/audit';
import type { KeyedRequest } from '../../prisma/store/access/stored-answers';
import { actorOf, requireRole } from './caller';
import { withIdempotencyKey, keyedRequestOf } from './idempotency';
import { readQuery } from './input-checks';
import { callerOf } from './authentication';
import { parseJson, readBody } from './json-body';
import { bytesOf, readUpload } from './upload-body';
import { Problem, problemOfIssues } from '../problems';
import {
  NOT_FOUND_DETAILS,
  PATH_IDS,
  type Answer,
  type AnswerBody,
  type ApiDeps,
  type PathId,
  type Route,
} from '../route';
import type { Streams } from './event-streams';

/** Mounts the routes. Every other method on their paths gets 405. */
export function mountRoutes(app: Express, deps: ApiDeps, streams: Streams, routes: readonly Route[]): void {
  for (const path of new Set(routes.map((route) => route.path))) {
    const onPath = routes.filter((route) => route.path === path);
    const mounted = app.route(path);
    for (const route of onPath) {
      const read = route.body === 'bytes' ? readUpload(deps.fileLimitBytes) : readBody;
      const before = route.body === null ? [] : [checkRole(route), read];
      mounted[route.method](...before, handler(deps, streams, route));
    }
    const methods = onPath.map((route) => route.method.toUpperCase());
    const allow = [...methods, ...(methods.includes('GET') ? ['HEAD'] : [])].join(', ');
    mounted.all(refuseMethod(allow));
  }
}

/** Answers with 405. Mount it after the routes of a path. */
export function refuseMethod(allow: string): RequestHandler {
  return () => {
    throw new Problem('method_not_allowed', `this path allows ${allow}`, { headers: { Allow: allow } });
  };
}

/** Runs before the body is read, so that a refused caller does not send a megabyte first. */
function checkRole(route: Route): RequestHandler {
  return (_req, res, next) => {
    requireRole(route.role, callerOf(res));
    next();
  };
}

function handler(deps: ApiDeps, streams: Streams, route: Route): RequestHandler {
  return async (req, res) => {
    const caller = callerOf(res);
    requireRole(route.role, caller);
    const ids = checkIds(req.params);
    const rawQuery = readQuery(req.url);
    const query = parseWith(route.query, rawQuery, 'parameters');
    const { given, body } = bodyOf(route, req);
    const call = { caller, ids, body, query };
    if (route.stream !== undefined && asksForStream(req)) {
      await streams.open(req, res, caller, route.stream(call));
      return;
    }
    const keyed = route.method === 'post' ? keyedRequestOf(req, caller.keyId, given, rawQuery) : null;
    send(res, await perform(deps, route, call, keyed));
  };
}

/** The body as it was sent, for the hash of a keyed request, and as the route's schema parsed it. */
function bodyOf({ body }: Route, req: Request): { given: unknown; body: unknown } {
  if (body === null) return { given: undefined, body: undefined };
  if (body === 'bytes') {
    const upload = bytesOf(req);
    return { given: upload.bytes, body: upload };
  }
  const given = parseJson(req);
  return { given, body: parseBody(body, given) };
}

type RouteCall = Parameters<Route['handle']>[1];

async function perform({ db }: ApiDeps, route: Route, call: RouteCall, keyed: KeyedRequest | null): Promise<Answer> {
  switch (route.transaction) {
    case 'none':
      return inStatement(route.handle(db, call));
    case 'prisma':
      return db.transaction((tx) => writeOnce(tx, route, call, keyed, () => route.handle(tx, call)));
    case 'sql':
      return db.sqlTransaction((tx) => writeOnce(tx, route, call, keyed, () => route.handle(tx, call)));
  }
}

/** Runs a write with its audit entry, once under its idempotency key if the request has one. */
async function writeOnce(
  tx: SqlTx,
  route: Route,
  call: RouteCall,
  keyed: KeyedRequest | null,
  handle: () => Promise<Answer>,
): Promise<Answer> {
  const write = async (): Promise<Answer> => {
    const answer = await handle();
    if (route.audit !== null && answer.repeated !== true) {
      await appendAudit(tx, actorOf(call.caller), route.audit(call, (answer.body ?? {}) as AnswerBody));
    }
    return answer;
  };
  return keyed === null || route.repeatable === true
    ? write()
    : withIdempotencyKey(tx, keyed, route.success.body, write);
}

/** HEAD never opens a stream: it answers as GET would, and a stream has no end. */
function asksForStream(req: Request): boolean {
  return req.method === 'GET' && req.accepts(['application/json', 'text/event-stream']) === 'text/event-stream';
}

function checkIds(params: Readonly<Record<string, string | string[]>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      const kind = PATH_IDS[name as PathId];
      if (typeof value !== 'string' || !isId(kind, value))
        throw new Problem('not_found', NOT_FOUND_DETAILS[name as PathId]);
      return [name, value];
    }),
  );
}

function parseBody(schema: z.ZodType, body: unknown): unknown {
  if (body === undefined && !schema.safeParse(undefined).success) {
    throw new Problem('malformed_body', 'the request needs a JSON object as its body');
  }
  const { single, many } = oneOrMany(schema);
  const fitting = Array.isArray(body) ? many : single;
  if (fitting === undefined || (body !== undefined && (body === null || typeof body !== 'object'))) {
    throw new Problem('invalid_input', 'the body must be a JSON object', { location: { pointer: '' } });
  }
  return parseWith(fitting, body, 'body');
}

/**
 * The schema of one body, and of a list if the route takes one. Parsing with the one that fits gives precise faults.
 */
function oneOrMany(schema: z.ZodType): { single: z.ZodType; many: z.ZodType | undefined } {
  const options = schema instanceof z.ZodUnion ? (schema.options as readonly z.ZodType[]) : [];
  const many = options.find((option) => option instanceof z.ZodArray);
  return { single: options.find((option) => many !== undefined && option !== many) ?? schema, many };
}

function parseWith(schema: z.ZodType, input: unknown, part: 'body' | 'parameters'): unknown {
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw problemOfIssues(parsed.error.issues, part);
  return parsed.data;
}

function send(res: Response, { status, body, file, replayed }: Answer): void {
  res.status(status);
  if (replayed === true) res.set('Idempotency-Replayed', 'true');
  if (file !== undefined) {
    res.attachment(file.name);
    // Set directly: Express would add a character set that the file may not have.
    res.setHeader('Content-Type', file.mediaType);
    res.end(file.bytes);
  } else if (body === undefined) res.end();
  else res.type('application/json').send(JSON.stringify(body));
}
