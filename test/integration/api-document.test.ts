// The OpenAPI document: it passes the linter, describes every route, and matches the answers in all API tests.

import { createConfig, lintFromString } from '@redocly/openapi-core';
import Ajv2020 from 'ajv/dist/2020';
import addFormats from 'ajv-formats';
import { allRoutes } from '../../api/app';
import { PROBLEMS } from '../../api/problems';
import { expectStatus, setUpRoom, startTestApi, type Json, type TestApi } from '../support/api';
import { assertDocumented, checked } from '../support/contract';

let api: TestApi;
let document: Json;
beforeAll(async () => {
  api = await startTestApi();
  document = await expectStatus(200, api.client().get('/openapi.json'));
});
afterAll(() => api.close());

test('the document passes the linter’s recommended rules', async () => {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lintFromString({ source: JSON.stringify(document), config });
  expect(problems.map(({ ruleId, message, location }) => `${ruleId} ${message} ${location[0]?.pointer}`)).toEqual([]);
  const broken = { ...document, paths: { ...document.paths, '/broken/{id}': { get: { responses: {} } } } };
  expect(await lintFromString({ source: JSON.stringify(broken), config })).not.toEqual([]);
});

test('the document has every route and no other', () => {
  const routes = allRoutes({} as never).map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`);
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods as object).map((method) => `${method} ${path}`),
  );
  expect(documented.sort()).toEqual([...routes, 'get /healthz', 'get /readyz'].sort());
});

test('the document gives each operation a unique id and names the roles that may call it', () => {
  const operations: Json[] = Object.values(document.paths).flatMap((path) => Object.values(path as Json));
  const ids = operations.map(({ operationId }) => operationId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { operationId, security, description } of operations) {
    if (security === undefined)
      expect([operationId, description]).toEqual([operationId, expect.stringMatching(/^For /)]);
  }
});

test('the document has the code of every problem', () => {
  const codes = new Set<string>();
  JSON.stringify(document.paths, (key, value: Json) => {
    if (key === 'code' && Array.isArray(value?.enum)) for (const code of value.enum) codes.add(code);
    return value;
  });
  // This problem belongs to no operation: it is the answer to a method that a path does not have.
  const others = ['method_not_allowed'];
  expect([...codes, ...others].sort()).toEqual(Object.keys(PROBLEMS).sort());
});

test('the document has a body schema that accepts and refuses the same bodies as the API', async () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats(ajv);
  ajv.addSchema(document, 'api');
  const room = await setUpRoom(api);
  const schemaRef = `api#/paths/${encodeURIComponent('~1v1~1rooms~1{room}~1events')}/post/requestBody/content/application~1json/schema`;
  const validate = ajv.compile({ $ref: schemaRef });
  const cases: readonly (readonly [body: unknown, accepted: boolean])[] = [
    [{ type: 'message', text: 'hi' }, true],
    [[{ type: 'message', text: 'hi' }], true],
    [{ type: 'task', to: 'scribe', goal: 'x', deadline: '2026-08-08' }, true],
    [{ type: 'message' }, false],
    [{ type: 'message', text: 'hi', more: 1 }, false],
    [{ type: 'task', to: 'scribe', goal: 'x', deadline: 'tomorrow' }, false],
    [{ type: 'nothing' }, false],
    [[], false],
    ['text', false],
  ];
  for (const [body, accepted] of cases) {
    const { status } = await room.larkspur.member.post(`${room.path}/events`, body);
    expect([body, validate(body), status]).toEqual([body, accepted, accepted ? 201 : 400]);
  }
});

test('the document is compared with every answer, and an undocumented answer fails its test', () => {
  expect(checked.answers).toBeGreaterThan(10);
  const headers = new Headers({ 'content-type': 'application/json' });
  const answer = (status: number, body: unknown) => ({ status, headers, text: JSON.stringify(body) });
  const room = {
    id: 'room_01h2xcejqtf2nbrexx3vqjhp41',
    slug: 's',
    name: 'S',
    host: 'co_01h2xcejqtf2nbrexx3vqjhp41',
    on_crash: 'stop',
    hop_limit: 8,
    run_allowance: 1,
    last_seq: 1,
    created_at: '2026-08-08T00:00:00.000Z',
    paused_at: null,
    closed_at: null,
  };
  const path = `/v1/rooms/${room.id}`;
  expect(() => assertDocumented('GET', path, answer(200, room))).not.toThrow();
  expect(() => assertDocumented('GET', path, answer(200, { ...room, secret: 1 }))).toThrow(/not as documented/);
  expect(() => assertDocumented('GET', path, answer(200, { ...room, slug: undefined }))).toThrow(/not as documented/);
  expect(() => assertDocumented('GET', path, answer(200, { ...room, created_at: 'today' }))).toThrow(
    /not as documented/,
  );
  expect(() => assertDocumented('GET', path, answer(418, room))).toThrow(/no such status/);
  expect(() => assertDocumented('GET', path, answer(404, room))).toThrow(/no application\/json/);
  expect(() => assertDocumented('GET', '/v1/nothing', answer(418, room))).not.toThrow();
});

describe('the documentation page', () => {
  test('shows every path and has no script and no external resource', async () => {
    const page = await api.client().get('/docs');
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    for (const path of Object.keys(document.paths)) expect(page.text).toContain(`<code>${path}</code>`);
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/=]+'; /);
    expect(page.text).not.toMatch(/<script|<link|<img|src=|https?:\/\//);
  });

  test('and the document accept GET only', async () => {
    for (const path of ['/docs', '/openapi.json']) {
      expect((await api.client().post(path, {})).status).toBe(405);
    }
  });
});
