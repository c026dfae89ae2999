// The OpenAPI document, and a page for people that is built from it and needs no script.

import { createHash } from 'node:crypto';
import type { Express } from 'express';
import { openApiDocument, type OpenApiDocument } from '../openapi';
import { refuseMethod } from '../middleware/route-handler';
import type { Route } from '../route';

export function mountDocs(app: Express, routes: readonly Route[]): void {
  // Built at the first request: it takes a quarter of a second, which would delay the start of the API.
  const documentation = once(() => {
    const document = openApiDocument(routes);
    return { text: JSON.stringify(document), page: pageOf(document) };
  });
  app
    .route('/openapi.json')
    .get((_req, res) => void res.type('application/json').send(documentation().text))
    .all(refuseMethod('GET, HEAD'));
  app
    .route('/docs')
    .get((_req, res) => {
      res.set('Content-Security-Policy', `default-src 'none'; style-src '${STYLE_HASH}'; frame-ancestors 'none'`);
      res.type('html').send(documentation().page);
    })
    .all(refuseMethod('GET, HEAD'));
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
code,pre{font:14px/1.5 ui-monospace,monospace;background:#f4f4f4}code{padding:0 .2em}pre{padding:.5em;overflow:auto}
summary{cursor:pointer;padding:.3rem 0}summary b{display:inline-block;min-width:4.5rem}details{border-top:1px solid #ddd}
table{border-collapse:collapse}td{padding:.1rem 1rem .1rem 0;vertical-align:top}`;
const STYLE_HASH = `sha256-${createHash('sha256').update(STYLE).digest('base64')}`;

function pageOf(document: OpenApiDocument): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const tags = document['tags'] as readonly { name: string; description: string }[];
  const { title, description } = document['info'] as { title: string; description: string };
  const { schemas } = document['components'] as { schemas: Readonly<Record<string, unknown>> };
  const sections = tags.map(({ name, description: purpose }) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    return `<h2>${escape(name)}</h2><p>${escape(purpose)}</p>${own.map(sectionOf).join('')}`;
  });
  const shapes = Object.entries(schemas).map(
    ([name, schema]) =>
      `<details id="${escape(name)}"><summary><code>${escape(name)}</code></summary>${preOf(schema)}</details>`,
  );
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title><style>${STYLE}</style></head>
<body><h1>${escape(title)}</h1><p>${escape(description)} The OpenAPI document: <a href="/openapi.json">/openapi.json</a>.</p>
${sections.join('\n')}<h2>Schemas</h2>${shapes.join('')}</body></html>`;
}

function sectionOf({
  path,
  method,
  operation,
}: {
  path: string;
  method: string;
  operation: OpenApiDocument['paths'][string][string];
}): string {
  const parameters = (operation['parameters'] ?? []) as readonly { name: string; in: string; schema: unknown }[];
  const body = operation['requestBody'] as { content: Record<string, { schema: unknown }> } | undefined;
  const rows = Object.entries(operation.responses).map(
    ([status, response]) => `<tr><td>${status}</td><td>${escape(String(response['description']))}</td></tr>`,
  );
  return `<details><summary><b>${method.toUpperCase()}</b> <code>${escape(path)}</code> ${escape(operation.summary)}</summary>
<p>${escape(operation.description ?? '')}</p>
${parameters.length > 0 ? `<p>Parameters: ${parameters.map(({ name, in: part }) => `<code>${escape(name)}</code> (${part})`).join(', ')}</p>` : ''}
${body === undefined ? '' : preOf(Object.values(body.content)[0]?.schema)}
<table>${rows.join('')}</table></details>`;
}

function preOf(value: unknown): string {
  return `<pre>${escape(JSON.stringify(value, null, 1))}</pre>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
