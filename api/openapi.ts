// The OpenAPI document, built from the route table and from the schemas that check requests.

import { z } from 'zod';
import { FILE_MEDIA_TYPES } from '../prisma/store/files/files';
import type { Role } from './middleware/caller';
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
  .meta({
    id: 'Problem',
    description: 'An RFC 9457 problem. Switch on `code`. `pointer` is a JSON pointer into the request body.',
  });

/** A description of each group of routes. The group of a route is the first noun of its path. */
const TAGS: Readonly<Record<string, string>> = {
  companies: 'Tenants, created by the operator.',
  keys: 'API keys of people, services and agents.',
  'model-keys': 'Keys for model providers.',
  agents: 'Agents and their settings.',
  rooms: 'Rooms, their members and their content.',
  wakes: 'Requests that an agent handle a message.',
  runs: 'Executions of wakes.',
  'held-actions': 'Actions that wait, or waited, for approval.',
  audit: 'Audited actions of people and the operator.',
  feed: "A company's feed over all its rooms.",
  health: 'Health checks for load balancers.',
};

/** Builds the document of a route table. */
export function openApiDocument(routes: readonly Route[]): OpenApiDocument {
  const components: Record<string, unknown> = {};
  const schemaOf = (schema: z.ZodType, io: 'input' | 'output'): Json => {
    // Wrapped in an object, so that a schema that has an id becomes a reference.
    const made = z.toJSONSchema(z.object({ it: schema }), { io, unrepresentable: 'any' });
    for (const [name, definition] of Object.entries(made.$defs ?? {})) components[name] = toComponentRefs(definition);
    return toComponentRefs(made.properties?.['it'] ?? {}) as Json;
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
        200: json('Healthy', schemaOf(z.object({ status: z.literal(status) }), 'output')),
        ...problemResponses(problems, problem),
      },
    },
  });
  Object.assign(paths, {
    '/healthz': health('Check that this process is alive', 'ok', ['invalid_input', 'internal']),
    '/readyz': health('Check that this process can serve requests', 'ready', [
      'invalid_input',
      'internal',
      'unavailable',
    ]),
  });
  const used = new Set(Object.values(paths).flatMap((path) => Object.values(path).flatMap(({ tags }) => tags)));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Durable Room',
      version: '1',
      description:
        'Rooms in which AI agents of different companies work together. Every POST accepts an `Idempotency-Key`. Every error is a problem document with a `code`.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'The server of this document' }],
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
  'Each event is one block: `id`, and `data` with the event as JSON. If the `Last-Event-ID` is unknown, the first block has ' +
  '`event: resync` and `data: {"after": …}`, the position from which the stream continues: the `seq` of an event for a room, ' +
  'a cursor for the feed of a company.';

type SchemaOf = (schema: z.ZodType, io: 'input' | 'output') => Json;

function operationOf(route: Route, schemaOf: SchemaOf, problem: Json): Operation {
  const { status, body } = route.success;
  const headers: Json = {
    'X-Request-Id': { description: 'The id of this request in the log', schema: { type: 'string' } },
    ...(route.method === 'post' && {
      'Idempotency-Replayed': {
        description: '`true`: this answer was stored for an earlier request with the same Idempotency-Key',
        schema: { type: 'string', const: 'true' },
      },
    }),
  };
  const success: Json =
    body === FILE_BYTES
      ? { description: 'The bytes of the file, unchanged', content: BYTES }
      : status === 204
        ? { description: 'Success, no content' }
        : json(status === 201 ? 'Created' : status === 202 ? 'Accepted' : 'Success', schemaOf(body, 'output'));
  if (route.stream !== undefined) {
    (success['content'] as Json)['text/event-stream'] = {
      schema: { type: 'string', description: STREAM },
    };
  }
  return {
    operationId: operationId(route),
    summary: route.summary,
    description: rolesText(route.role),
    tags: [tagOf(route.path)],
    parameters: parametersOf(route, schemaOf),
    // HTTP gives the body of a DELETE no meaning. The API accepts an empty body, and the document does not describe it.
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
          header('Idempotency-Key', 'A request that repeats the key and body runs once and gets the same answer.', {
            pattern: '^[\\x21-\\x7e]+$',
            minLength: 1,
            maxLength: 255,
          }),
        ]
      : []),
    ...(route.stream === undefined
      ? []
      : [header('Last-Event-ID', 'The id of the last event that the client received from a stream.', {})]),
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
    const ofStatus = codes.filter((code) => PROBLEMS[code].status === status);
    responses[status] = {
      description: ofStatus.map((code) => `${PROBLEMS[code].title} (\`${code}\`)`).join(', or '),
      content: {
        'application/problem+json': { schema: { ...problem, properties: { code: { enum: ofStatus } } } },
      },
    };
  }
  return responses;
}

function json(description: string, schema: Json): Json {
  return { description, content: { 'application/json': { schema } } };
}

/** Changes references to the definitions beside one schema into references to the document's components. */
function toComponentRefs(schema: unknown): unknown {
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

function rolesText(role: Role): string {
  switch (role) {
    case 'operator':
      return 'For the operator key.';
    case 'admin':
      return 'For admin keys.';
    case 'person':
      return 'For people: admins and members.';
    case 'agent':
      return 'For agent keys.';
    case 'company':
      return 'For every company key.';
    case 'anyone':
      return 'For every key.';
  }
}
