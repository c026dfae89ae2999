// Checks every answer of the API against the OpenAPI document. A status, type or field that the document does not have
// fails the test.

import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020';
import addFormats from 'ajv-formats';
import pino from 'pino';
import { allRoutes } from '../../api/app';
import { openApiDocument } from '../../api/openapi';
import type { ApiDeps } from '../../api/route';

/** The number of answers that were checked against the document. */
export const checked = { answers: 0 };

interface Documented {
  readonly template: RegExp;
  readonly path: string;
  readonly methods: Readonly<Record<string, unknown>>;
}

let contract: { paths: readonly Documented[]; validator(schemaPath: readonly string[]): ValidateFunction } | undefined;

function load(): NonNullable<typeof contract> {
  if (contract !== undefined) return contract;
  // Only the schemas of the routes are read; no route is called.
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
    validator(schemaPath) {
      const ref = `api#/${schemaPath.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
      const compiled = validators.get(ref);
      if (compiled !== undefined) return compiled;
      // Many schemas are equal (the problems, for example). Equal schemas share one validator, because compiling is slow.
      const text = JSON.stringify(
        schemaPath.reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], document),
      );
      const known = validators.get(text) ?? ajv.compile({ $ref: ref });
      validators.set(ref, known).set(text, known);
      return known;
    },
  };
  return contract;
}

/** @throws Error with the differences, if the answer is not as documented */
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
  const title = `${method} ${documented.path} → ${answer.status}`;
  const { responses } = operation as { responses: Record<string, { content?: Record<string, unknown> }> };
  const response = responses[answer.status];
  if (response === undefined) throw new Error(`${title}: the document has no such status: ${answer.text}`);
  checked.answers += 1;
  if (response.content === undefined) {
    if (answer.text !== '') throw new Error(`${title}: the document has no body`);
    return;
  }
  const type = (answer.headers.get('content-type') ?? '').replace(/;.*$/, '');
  if (response.content[type] === undefined) throw new Error(`${title}: the document has no ${type}`);
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
  throw new Error(`${title} is not as documented: ${JSON.stringify(validate.errors?.slice(0, 8))}\n${answer.text}`);
}
