// The definition of a route: path, role, schemas of input and answer, and handler. `middleware/route-handler.ts` runs
// the routes, and `openapi.ts` documents them.

import type { Logger } from 'pino';
import { z } from 'zod';
import type { PriceTable } from '../workflows/policy/prices';
import type { SecretBox } from '../workflows/policy/secret-box';
import type { AuditRecord } from '../prisma/store/access/audit';
import type { IdPrefix } from '../prisma/store/db/ids';
import type { Database } from '../prisma/store/db/database';
import type { Reader, SqlTx, Tx } from '../prisma/store/db/transaction';
import type { RunHistories } from '../worker/temporal/histories';
import type { CallerFor, Role } from './middleware/caller';
import type { OnRequest } from './middleware/request-reports';
import type { ProblemCode } from './problems';
import type { Streams, StreamSource } from './middleware/event-streams';
import type { Upload } from './middleware/upload-body';

export interface ApiDeps {
  readonly db: Database;
  readonly secretBox: SecretBox;
  /** The base URL of each provider that the operator configured, by name. */
  readonly providers: ReadonlyMap<string, string>;
  /** The `host:port` values that an owner-supplied address may name, although they are internal or not https. */
  readonly allowedModelHosts: readonly string[];
  /** The prices of models that the operator configured. */
  readonly prices: PriceTable;
  readonly log: Logger;
  /** Reads a run's Temporal history. Without it, timelines come from the ledger alone. */
  readonly histories?: RunHistories;
  /** Called at the end of every request. */
  readonly onRequest?: OnRequest;
  /** Record each request as a trace span. */
  readonly tracing?: boolean;
  /** The rate limit of one key. */
  readonly requestsPerMinute?: number;
  /** The caller that creates them closes them. Without them, streams poll and get no notifications. */
  readonly streams?: Streams;
  /** The size of the largest file that the API accepts. */
  readonly fileLimitBytes: number;
  /** The time limit of a search. */
  readonly searchLimitMs: number;
  /** The Temporal Web UI. Without it, the console shows no links to a run's workflow. */
  readonly temporalUi?: { readonly url: string; readonly namespace: string };
}

/** The id parameters of paths, and the prefix of each. */
export const PATH_IDS = {
  company: 'co',
  key: 'key',
  model_key: 'mk',
  agent: 'agent',
  room: 'room',
  invitation: 'inv',
  message: 'msg',
  task: 'task',
  entry: 'mem',
  wake: 'wake',
  run: 'run',
  held_action: 'held',
  file: 'file',
  passage: 'psg',
} as const satisfies Record<string, IdPrefix>;

export type PathId = keyof typeof PATH_IDS;

/** The 404 detail of each id parameter; must match the store's NotFound messages. */
export const NOT_FOUND_DETAILS: Readonly<Record<PathId, string>> = {
  company: 'no such company',
  key: 'no such key',
  model_key: 'no such model key',
  agent: 'no such agent',
  room: 'no such room',
  invitation: 'no such invitation',
  message: 'no such message in this room',
  task: 'no such task in this room',
  entry: 'no such memory entry in this room',
  wake: 'no such wake',
  run: 'no such run',
  held_action: 'no such held action',
  file: 'no such file in this room',
  passage: 'no such passage in this room',
};

type IdsIn<P extends string> = P extends `${string}:${infer Rest}`
  ? Rest extends `${infer Id}/${infer After}`
    ? Id | IdsIn<After>
    : Rest
  : never;

/** One checked request. */
export interface Call<P extends string, R extends Role, B, Q> {
  readonly caller: CallerFor<R>;
  readonly ids: Readonly<Record<IdsIn<P>, string>>;
  readonly body: B;
  readonly query: Q;
}

export interface Answer {
  readonly status: 200 | 201 | 202 | 204;
  readonly body?: unknown;
  /** True when the request changed nothing because it was done before. It is then not audited. */
  readonly repeated?: boolean;
  /** True when the answer was stored for an earlier request with the same Idempotency-Key. */
  readonly replayed?: boolean;
  /** A file instead of a body. It is sent as an attachment, so that a browser saves it and does not show it. */
  readonly file?: { readonly name: string; readonly mediaType: string; readonly bytes: Buffer };
}

/** The success answer of a route. */
export interface Success {
  readonly status: Answer['status'];
  /** `z.undefined()`: an empty body. */
  readonly body: z.ZodType;
}

/** A route's handler. A write's handler runs in one transaction with its audit entry, and may run again after a deadlock. */
type Handle<X> = (tx: X, call: Call<string, Role, unknown, unknown>) => Promise<Answer>;

/** The transaction of a handler. `sql` allows only the store's own SQL statements and costs much less. */
type Handled =
  | { readonly transaction: 'none'; readonly handle: Handle<Reader> }
  | { readonly transaction: 'prisma'; readonly handle: Handle<Tx> }
  | { readonly transaction: 'sql'; readonly handle: Handle<SqlTx> };

export type Route = RouteBase & Handled;

interface RouteBase {
  readonly method: 'get' | 'post' | 'patch' | 'delete';
  readonly path: string;
  readonly role: Role;
  /** The OpenAPI summary. */
  readonly summary: string;
  /** Null: no body. `bytes`: the raw body of any type. */
  readonly body: z.ZodType | 'bytes' | null;
  readonly query: z.ZodObject;
  readonly success: Success;
  /** Problem codes beyond those that every route of this method has. */
  readonly problems: readonly ProblemCode[];
  /** For a POST that is idempotent without a key. Its answer is not stored, and an `Idempotency-Key` has no effect. */
  readonly repeatable?: boolean;
  /** The audit entry, written in the same transaction. Null for reads, and for writes that the room's feed records. */
  readonly audit: Audit<string, Role, unknown> | null;
  /** The source of the stream for a client that accepts `text/event-stream`. */
  readonly stream?: (call: Call<string, Role, unknown, unknown>) => StreamSource;
}

/** Makes an audit entry from the call and the body of its answer. */
type Audit<P extends string, R extends Role, B> = (call: Call<P, R, B, unknown>, answer: AnswerBody) => AuditRecord;
/** The body of an answer, as an audit entry reads it. */
export type AnswerBody = Readonly<Record<string, unknown>> & { readonly id: string };

const noQuery = z.strictObject({});
/** For a write whose path holds everything: no body, or an empty object. */
const noBody = z.strictObject({}).optional();

/** 204 with an empty body. */
export const noContent: Success = { status: 204, body: z.undefined() };

/** The success body of a route that answers with a file. */
export const FILE_BYTES = z.unknown();

export function ok(body: z.ZodType): Success {
  return { status: 200, body };
}

export function created(body: z.ZodType): Success {
  return { status: 201, body };
}

export function accepted(body: z.ZodType): Success {
  return { status: 202, body };
}

/** A route that only reads. */
export function readRoute<const P extends string, R extends Role, Q extends z.ZodObject = typeof noQuery>(route: {
  readonly path: P;
  readonly role: R;
  readonly summary: string;
  readonly query?: Q;
  readonly success: Success;
  readonly problems?: readonly ProblemCode[];
  readonly handle: (db: Reader, call: Call<P, R, undefined, z.output<Q>>) => Promise<Answer>;
  readonly stream?: (call: Call<P, R, undefined, z.output<Q>>) => StreamSource;
}): Route {
  const { stream, ...rest } = route;
  return {
    ...rest,
    method: 'get',
    body: null,
    query: route.query ?? noQuery,
    problems: route.problems ?? [],
    transaction: 'none',
    audit: null,
    handle: route.handle as Handle<Reader>,
    ...(stream && { stream: stream as NonNullable<Route['stream']> }),
  };
}

interface Write<P extends string, R extends Role, B extends z.ZodType, T> {
  readonly method: 'post' | 'patch' | 'delete';
  readonly path: P;
  readonly role: R;
  readonly summary: string;
  readonly body?: B;
  readonly success: Success;
  readonly problems?: readonly ProblemCode[];
  readonly repeatable?: boolean;
  readonly audit: Audit<P, R, z.output<B>> | null;
  readonly handle: (tx: T, call: Call<P, R, z.output<B>, unknown>) => Promise<Answer>;
}

/**
 * A route that writes. `handle` runs in one transaction and may run again after a deadlock, so every effect must go
 * through `tx`. The answer of a POST with an `Idempotency-Key` is stored in the same transaction.
 */
export function writeRoute<const P extends string, R extends Role, B extends z.ZodType = typeof noBody>(
  route: Write<P, R, B, Tx>,
): Route {
  return { ...toWriteRoute(route), transaction: 'prisma', handle: route.handle as Handle<Tx> };
}

/** Like `writeRoute`, for the hot path: `handle` may use only the store's own SQL statements, not Prisma's calls. */
export function sqlWriteRoute<const P extends string, R extends Role, B extends z.ZodType = typeof noBody>(
  route: Write<P, R, B, SqlTx>,
): Route {
  return { ...toWriteRoute(route), transaction: 'sql', handle: route.handle as Handle<SqlTx> };
}

function toWriteRoute<P extends string, R extends Role, B extends z.ZodType, T>(route: Write<P, R, B, T>): RouteBase {
  return {
    ...route,
    body: route.body ?? noBody,
    query: noQuery,
    problems: route.problems ?? [],
    audit: route.audit as RouteBase['audit'],
  };
}

/** A route whose body is a file: bytes of any type, up to the file size limit. Otherwise like `writeRoute`. */
export function uploadRoute<const P extends string, R extends Role, Q extends z.ZodObject>(route: {
  readonly path: P;
  readonly role: R;
  readonly summary: string;
  readonly query: Q;
  readonly success: Success;
  readonly handle: (tx: Tx, call: Call<P, R, Upload, z.output<Q>>) => Promise<Answer>;
}): Route {
  return {
    ...route,
    method: 'post',
    body: 'bytes',
    problems: [],
    transaction: 'prisma',
    audit: null,
    handle: route.handle as Handle<Tx>,
  };
}
