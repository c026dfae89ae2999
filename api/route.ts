// What a route is: a path, who may call it, the schemas of what it takes and answers, and what it does. How a request
// reaches it is `mounted-routes.ts`'; what the API's document says of it is `openapi.ts`'.

import type { Logger } from 'pino';
import { z } from 'zod';
import type { PriceTable } from '../workflows/policy/prices';
import type { SecretBox } from '../workflows/policy/secret-box';
import type { AuditRecord } from '../prisma/store/access/audit';
import type { IdPrefix } from '../prisma/store/db/ids';
import type { Database } from '../prisma/store/db/database';
import type { Reader, SqlTx, Tx } from '../prisma/store/db/transaction';
import type { RunHistories } from '../worker/temporal/histories';
import type { CallerFor, Who } from './callers';
import type { OnRequest } from './middleware/request-reports';
import type { ProblemCode } from './problems';
import type { Streams, StreamSource } from './streams';
import type { Upload } from './middleware/upload-body';

export interface ApiDeps {
  readonly db: Database;
  readonly secretBox: SecretBox;
  /** Name to base URL, as the operator configured them. */
  readonly providers: ReadonlyMap<string, string>;
  /** `host:port` that an owner-supplied address may name although it is inside, or not https. */
  readonly allowedModelHosts: readonly string[];
  /** What models cost, as far as the operator says. */
  readonly prices: PriceTable;
  readonly log: Logger;
  /** Where a run's history can be read. Left out: timelines are from the ledger alone. */
  readonly histories?: RunHistories;
  /** Told of every request at its end. */
  readonly onRequest?: OnRequest;
  /** Every request is a span. */
  readonly tracing?: boolean;
  /** Of one key. */
  readonly requestsPerMinute?: number;
  /** Whoever makes them closes them. Without any, streams look without being told. */
  readonly streams?: Streams;
  /** The largest file that is taken. */
  readonly fileLimitBytes: number;
  /** How long a search may take. */
  readonly searchLimitMs: number;
  /** Where people find a run in the Temporal Web UI. Left out: the console links to none. */
  readonly temporalUi?: { readonly url: string; readonly namespace: string };
}

/** The ids that paths hold, and the kind of each. */
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

/** As the store says it of an id that nothing has. */
export const MISSING: Readonly<Record<PathId, string>> = {
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

/** One request, checked. */
export interface Call<P extends string, W extends Who, B, Q> {
  readonly caller: CallerFor<W>;
  readonly ids: Readonly<Record<IdsIn<P>, string>>;
  readonly body: B;
  readonly query: Q;
}

export interface Answer {
  readonly status: 200 | 201 | 202 | 204;
  readonly body?: unknown;
  /** What was asked for had been done before: nothing changed, so the audit has nothing to say. */
  readonly repeated?: boolean;
  /** It was given before, to a request with the same Idempotency-Key. */
  readonly replayed?: boolean;
  /** In the body's place: a file to be saved, never shown by a browser. */
  readonly file?: { readonly name: string; readonly mediaType: string; readonly bytes: Buffer };
}

/** What a route answers when all is well. */
export interface Success {
  readonly status: Answer['status'];
  /** `z.undefined()`: nothing. */
  readonly body: z.ZodType;
}

type Handle<X> = (tx: X, call: Call<string, Who, unknown, unknown>) => Promise<Answer>;

/** What the handler runs in. `sql`: a transaction that takes the store's own SQL only, at a fraction of the cost. */
type Handled =
  | { readonly transaction: 'none'; readonly handle: Handle<Reader> }
  | { readonly transaction: 'prisma'; readonly handle: Handle<Tx> }
  | { readonly transaction: 'sql'; readonly handle: Handle<SqlTx> };

export type Route = RouteBase & Handled;

interface RouteBase {
  readonly method: 'get' | 'post' | 'patch' | 'delete';
  readonly path: string;
  readonly who: Who;
  /** What it is for, in a few words. */
  readonly summary: string;
  /** Null: it takes no body. `bytes`: whatever it is, as it is. */
  readonly body: z.ZodType | 'bytes' | null;
  readonly query: z.ZodObject;
  readonly success: Success;
  /** Problems beyond those that every route of its kind may answer with. */
  readonly problems: readonly ProblemCode[];
  /** A POST that done twice is done once by itself. Its answer is not kept: an `Idempotency-Key` changes nothing. */
  readonly repeatable?: boolean;
  /** What the audit says of it, in the same transaction. Null: it belongs to the room's feed, or is only a read. */
  readonly audit: Audit<string, Who, unknown> | null;
  /** What it streams to whoever accepts `text/event-stream`. */
  readonly stream?: (call: Call<string, Who, unknown, unknown>) => StreamSource;
}

/** Tells the audit what a person or the operator did, from the call and its answer's body. */
type Audit<P extends string, W extends Who, B> = (call: Call<P, W, B, unknown>, answer: Answered) => AuditRecord;
/** An answer's body as a record of it may read it. */
export type Answered = Readonly<Record<string, unknown>> & { readonly id: string };

const noQuery = z.strictObject({});
/** A POST that says all in its path: no body, or an empty object. */
const noBody = z.strictObject({}).optional();

/** Answers with nothing. */
export const noContent: Success = { status: 204, body: z.undefined() };

/** In the place of a success's body: a file. */
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
export function readRoute<const P extends string, W extends Who, Q extends z.ZodObject = typeof noQuery>(route: {
  readonly path: P;
  readonly who: W;
  readonly summary: string;
  readonly query?: Q;
  readonly success: Success;
  readonly problems?: readonly ProblemCode[];
  readonly handle: (db: Reader, call: Call<P, W, undefined, z.output<Q>>) => Promise<Answer>;
  readonly stream?: (call: Call<P, W, undefined, z.output<Q>>) => StreamSource;
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

interface Write<P extends string, W extends Who, B extends z.ZodType, T> {
  readonly method: 'post' | 'patch' | 'delete';
  readonly path: P;
  readonly who: W;
  readonly summary: string;
  readonly body?: B;
  readonly success: Success;
  readonly problems?: readonly ProblemCode[];
  readonly repeatable?: boolean;
  readonly audit: Audit<P, W, z.output<B>> | null;
  readonly handle: (tx: T, call: Call<P, W, z.output<B>, unknown>) => Promise<Answer>;
}

/**
 * A route that writes. `handle` runs in one transaction, and again after a deadlock: it may act through it alone. A POST
 * that bears an `Idempotency-Key` keeps its answer in the same transaction.
 */
export function writeRoute<const P extends string, W extends Who, B extends z.ZodType = typeof noBody>(
  route: Write<P, W, B, Tx>,
): Route {
  return { ...written(route), transaction: 'prisma', handle: route.handle as Handle<Tx> };
}

/** As `writeRoute`, for the hot path: `handle` sends SQL of the store's own and nothing else. */
export function sqlWriteRoute<const P extends string, W extends Who, B extends z.ZodType = typeof noBody>(
  route: Write<P, W, B, SqlTx>,
): Route {
  return { ...written(route), transaction: 'sql', handle: route.handle as Handle<SqlTx> };
}

function written<P extends string, W extends Who, B extends z.ZodType, T>(route: Write<P, W, B, T>): RouteBase {
  return {
    ...route,
    body: route.body ?? noBody,
    query: noQuery,
    problems: route.problems ?? [],
    audit: route.audit as RouteBase['audit'],
  };
}

/** A route whose body is a file: bytes of any kind, up to the limit of files. Otherwise as `writeRoute`. */
export function uploadRoute<const P extends string, W extends Who, Q extends z.ZodObject>(route: {
  readonly path: P;
  readonly who: W;
  readonly summary: string;
  readonly query: Q;
  readonly success: Success;
  readonly handle: (tx: Tx, call: Call<P, W, Upload, z.output<Q>>) => Promise<Answer>;
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
