// The OpenAPI document, made of the route table and the very schemas that requests are checked with.

import { z } from 'zod';
import { FILE_MEDIA_TYPES } from '../prisma/store/files/files';
import type { Who } from './callers';
import { PROBLEMS, type ProblemCode } from './problems';
import { FILE_BYTES, PATH_IDS, type PathId, type Route } from './route';
import { idPattern } from './schemas/fields';

type Json = Record<string, unknown>;

export interface OpenApiDocument extends Json {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

interface Operation extends Json {
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly responses: Readonly<Record<string, Json>>;
}

const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]),
    detail: z.string(),
    pointer: z.string().optional(),
    parameter: z.string().optional(),
    state: z.string().optional(),
    errors: z
      .array(z.object({ detail: z.string(), pointer: z.string().optional(), parameter: z.string().optional() }))
      .optional(),
    request_id: z.string(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457. Switch on `code`; `pointer` is into the body.' });

/** What the groups of routes are for; a group is the last noun of a path that is no action. */
const TAGS: Readonly<Record<string, string>> = {
  companies: 'Tenants, made by the operator.',
  keys: 'API keys: persons, services, agents.',
  'model-keys': 'Keys at model providers.',
  agents: 'Agents and their instructions.',
  rooms: 'Where companies meet.',
  wakes: 'Requests that an agent look at a message.',
  runs: 'Wakes carried out.',
  'held-actions': "What waits for a company's yes.",
  audit: 'Who did what, and when.',
  feed: "A company's own feed over all its rooms.",
  health: 'For load balancers.',
};

/** The document of a route table. */
export function openApiDocument(routes: readonly Route[]): OpenApiDocument {
  const components: Record<string, unknown> = {};
  const schemaOf = (schema: z.ZodType, io: 'input' | 'output'): Json => {
    // Within an object, so that a schema with a name of its own becomes a reference.
    const made = z.toJSONSchema(z.object({ it: schema }), { io, unrepresentable: 'any' });
    for (const [name, definition] of Object.entries(made.$defs ?? {})) components[name] = moved(definition);
    return moved(made.properties?.['it'] ?? {}) as Json;
  };
  const problem = schemaOf(problemSchema, 'output');
  const paths: Record<string, Record<string, Operation>> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    (paths[path] ??= {})[route.method] = operationOf(route, schemaOf, problem);
  }
  const health = (summary: string, status: string, problems: readonly ProblemCode[]): Json => ({
    get: {
      operationId: status,
      summary,
      tags: ['health'],
      security: [],
      responses: {
        200: json('All is well', schemaOf(z.object({ status: z.literal(status) }), 'output')),
        ...problemResponses(problems, problem),
      },
    },
  });
  Object.assign(paths, {
    '/healthz': health('Whether this process lives', 'ok', ['invalid_input', 'internal']),
    '/readyz': health('Whether it can serve', 'ready', ['invalid_input', 'internal', 'unavailable']),
  });
  const used = new Set(Object.values(paths).flatMap((path) => Object.values(path).flatMap(({ tags }) => tags)));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Durable Room',
      version: '1',
      description:
        'Rooms in which AI agents of different companies work together. Every POST takes an `Idempotency-Key`; every error is a problem document with a `code`.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'Where this document was read' }],
    security: [{ key: [] }],
    tags: [...used].map((name) => ({ name, description: TAGS[name] ?? name })),
    paths,
    components: {
      schemas: components,
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'An API key.' } },
    },
  };
}

const BYTES: Json = Object.fromEntries(
  FILE_MEDIA_TYPES.map((type) => [type, { schema: { type: 'string', format: 'binary' } }]),
);

const STREAM =
  'An event a block: `id`, and `data` with the event as JSON. After a `Last-Event-ID` that is not known, first one block ' +
  'with `event: resync` and `data: {"after": …}`, the place from which the stream goes on: in a room the number of an ' +
  'event, as in `seq`; in the feed of a company a cursor.';

type SchemaOf = (schema: z.ZodType, io: 'input' | 'output') => Json;

function operationOf(route: Route, schemaOf: SchemaOf, problem: Json): Operation {
  const { status, body } = route.success;
  const headers: Json = {
    'X-Request-Id': { description: 'What the log knows this request by', schema: { type: 'string' } },
    ...(route.method === 'post' && {
      'Idempotency-Replayed': {
        description: '`true`: this answer was given before',
        schema: { type: 'string', const: 'true' },
      },
    }),
  };
  const success: Json =
    body === FILE_BYTES
      ? { description: 'The file as it was sent', content: BYTES }
      : status === 204
        ? { description: 'Done' }
        : json(status === 201 ? 'Made' : status === 202 ? 'Will be done' : 'As asked', schemaOf(body, 'output'));
  if (route.stream !== undefined) {
    (success['content'] as Json)['text/event-stream'] = {
      schema: { type: 'string', description: STREAM },
    };
  }
  return {
    operationId: operationId(route),
    summary: route.summary,
    description: whoMay(route.who),
    tags: [tagOf(route.path)],
    parameters: parametersOf(route, schemaOf),
    // HTTP gives the body of a DELETE no meaning: an empty one is taken, and not told of.
    ...(route.body !== null &&
      route.method !== 'delete' && {
        requestBody:
          route.body === 'bytes'
            ? { required: true, content: BYTES }
            : {
                required: !route.body.safeParse(undefined).success,
                content: { 'application/json': { schema: schemaOf(route.body, 'input') } },
              },
      }),
    responses: { [status]: { ...success, headers }, ...problemResponses(problemsOf(route), problem) },
  };
}

function parametersOf(route: Route, schemaOf: SchemaOf): Json[] {
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', pattern: idPattern(PATH_IDS[name as PathId]).source },
  }));
  const query = schemaOf(route.query, 'input');
  const required = (query['required'] ?? []) as readonly string[];
  const inQuery = Object.entries((query['properties'] ?? {}) as Readonly<Record<string, Json>>).map(
    ([name, schema]) => ({ name, in: 'query', required: required.includes(name), schema }),
  );
  const header = (name: string, description: string, schema: Json): Json => ({
    name,
    in: 'header',
    required: false,
    description,
    schema: { type: 'string', ...schema },
  });
  return [
    ...inPath,
    ...inQuery,
    ...(route.method === 'post'
      ? [
          header('Idempotency-Key', 'The same key and body again is carried out once, and answered again.', {
            pattern: '^[\\x21-\\x7e]+$',
            minLength: 1,
            maxLength: 255,
          }),
        ]
      : []),
    ...(route.stream === undefined ? [] : [header('Last-Event-ID', 'The last event that a stream brought.', {})]),
  ];
}

function problemsOf(route: Route): ProblemCode[] {
  return [
    'invalid_input',
    'unauthenticated',
    'not_allowed',
    'company_suspended',
    ...(route.path.includes(':') ? (['not_found'] as const) : []),
    ...(route.body === null ? [] : (['malformed_body', 'body_too_large', 'unsupported_media_type'] as const)),
    ...(route.method === 'get' ? [] : (['conflict'] as const)),
    ...(route.method === 'post' ? (['request_in_flight', 'idempotency_key_reused'] as const) : []),
    ...route.problems,
    'rate_limited',
    'internal',
    'unavailable',
  ];
}

function problemResponses(codes: readonly ProblemCode[], problem: Json): Json {
  const responses: Record<string, Json> = {};
  for (const status of new Set(codes.map((code) => PROBLEMS[code].status))) {
    const these = codes.filter((code) => PROBLEMS[code].status === status);
    responses[status] = {
      description: these.map((code) => `${PROBLEMS[code].title} (\`${code}\`)`).join(', or '),
      content: {
        'application/problem+json': { schema: { ...problem, properties: { code: { enum: these } } } },
      },
    };
  }
  return responses;
}

function json(description: string, schema: Json): Json {
  return { description, content: { 'application/json': { schema } } };
}

/** References to what was defined beside one schema now mean what all of the document shares. */
function moved(schema: unknown): unknown {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/')) as unknown;
}

function operationId({ method, path }: Route): string {
  const words = path
    .slice('/v1/'.length)
    .split(/[/\-_]/)
    .map((word) => (word.startsWith(':') ? `By-${word.slice(1)}` : word))
    .flatMap((word) => word.split('-'));
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

function tagOf(path: string): string {
  return path.split('/')[2] as string;
}

function whoMay(who: Who): string {
  switch (who) {
    case 'operator':
      return 'For the operator.';
    case 'admin':
      return 'For admins.';
    case 'person':
      return 'For persons: admins and members.';
    case 'agent':
      return 'For agents, with a key of their own.';
    case 'company':
      return 'For every key of a company.';
    case 'anyone':
      return 'For every key.';
  }
}
