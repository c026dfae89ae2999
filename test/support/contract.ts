// Holds every answer of the API against its own document: a status, type or field that the document does not know fails
// the test that met it.

import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020';
import addFormats from 'ajv-formats';
import pino from 'pino';
import { allRoutes } from '../../api/app';
import { openApiDocument } from '../../api/openapi';
import type { ApiDeps } from '../../api/route';

/** Answers of paths in the document that were held against it. */
export const checked = { answers: 0 };

interface Documented {
  readonly template: RegExp;
  readonly path: string;
  readonly methods: Readonly<Record<string, unknown>>;
}

let contract: { paths: readonly Documented[]; validator(place: readonly string[]): ValidateFunction } | undefined;

function load(): NonNullable<typeof contract> {
  if (contract !== undefined) return contract;
  // Only their schemas are read: no route is asked anything.
  const deps = { providers: new Map(), allowedModelHosts: [], log: pino({ level: 'silent' }) } as unknown as ApiDeps;
  const document = openApiDocument(allRoutes(deps));
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats(ajv);
  ajv.addSchema(document, 'api');
  const validators = new Map<string, ValidateFunction>();
  contract = {
    paths: Object.entries(document.paths).map(([path, methods]) => ({
      path,
      methods,
      template: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    })),
    validator(place) {
      const ref = `api#/${place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
      const asked = validators.get(ref);
      if (asked !== undefined) return asked;
      // Most places tell of the same few problems: compiling each anew is what a file of tests would spend its time on.
      const text = JSON.stringify(place.reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], document));
      const known = validators.get(text) ?? ajv.compile({ $ref: ref });
      validators.set(ref, known).set(text, known);
      return known;
    },
  };
  return contract;
}

/** @throws Error that says how an answer differs from what the document says of it */
export function assertDocumented(
  method: string,
  url: string,
  answer: { readonly status: number; readonly headers: Headers; readonly text: string },
): void {
  const { paths, validator } = load();
  const pathname = url.replace(/\?.*$/, '');
  const documented = paths.find(({ template }) => template.test(pathname));
  const operation = documented?.methods[method.toLowerCase()];
  if (documented === undefined || operation === undefined) return;
  const place = `${method} ${documented.path} → ${answer.status}`;
  const { responses } = operation as { responses: Record<string, { content?: Record<string, unknown> }> };
  const response = responses[answer.status];
  if (response === undefined) throw new Error(`${place}: the document knows no such status: ${answer.text}`);
  checked.answers += 1;
  if (response.content === undefined) {
    if (answer.text !== '') throw new Error(`${place}: the document knows no body`);
    return;
  }
  const type = (answer.headers.get('content-type') ?? '').replace(/;.*$/, '');
  if (response.content[type] === undefined) throw new Error(`${place}: the document knows no ${type}`);
  if (!type.endsWith('json') || answer.headers.has('content-disposition')) return;
  const validate = validator([
    'paths',
    documented.path,
    method.toLowerCase(),
    'responses',
    String(answer.status),
    'content',
    type,
    'schema',
  ]);
  if (validate(JSON.parse(answer.text))) return;
  throw new Error(`${place} is not as documented: ${JSON.stringify(validate.errors?.slice(0, 8))}\n${answer.text}`);
}
