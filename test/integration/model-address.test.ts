// Addresses that a call to an owner's address may connect to. The check covers every address of a name and the address of
// the connected socket; a refused call sends nothing, as a real server counts.

import dns from 'node:dns';
import http from 'node:http';
import type { AddressInfo } from 'node:net';

import { exchangeOnce, type ExchangeRules } from '../../activities/model/exchange';
import { useModelCalls } from '../support/model-calls';
import { answer, startScriptedModel } from '../support/scripted-model-server';

const calls = useModelCalls('openai_compatible');
const REFUSED = { kind: 'refused', code: 'address_refused', status: null, providerCode: null };
const PUBLIC = '93.184.215.14';

type Found = readonly { address: string; family: number }[];

/** Answers each look-up with the next of these (the last one repeats), and counts the look-ups. */
function resolveTo(...answers: Found[]): { count(): number } {
  const spy = jest.spyOn(dns, 'lookup').mockImplementation(((_name: string, options: object, callback: unknown) => {
    const found = answers[Math.min(spy.mock.calls.length, answers.length) - 1] ?? [];
    expect(options).toMatchObject({ all: true });
    (callback as (error: null, addresses: Found) => void)(null, found);
  }) as never);
  return { count: () => spy.mock.calls.length };
}

const v4 = (address: string) => ({ address, family: 4 });
const v6 = (address: string) => ({ address, family: 6 });
const portOf = (origin: string): string => new URL(origin).port;

afterEach(() => {
  jest.restoreAllMocks();
});

describe("an owner's address inside our network", () => {
  test.each([
    '127.0.0.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.1',
    '127.0.0.1.',
    '[::ffff:127.0.0.1]',
    '[::1]',
    '169.254.169.254',
    'localhost',
    'localhost.',
    'a.localhost',
  ])('is refused without a look-up, over https and http: %s', async (host) => {
    const lookups = resolveTo([v4('127.0.0.1')]);
    for (const scheme of ['https', 'http']) {
      const baseUrl = `${scheme}://${host}:${portOf(calls.model.origin)}/v1`;
      expect(await calls.call({ baseUrl, ownerSupplied: true })).toEqual(REFUSED);
    }
    expect([lookups.count(), calls.model.connections]).toEqual([0, 0]);
  });

  test.each<[string, Found]>([
    ['loopback', [v4('127.0.0.1')]],
    ['a private address', [v4('10.0.0.7')]],
    ['the metadata address', [v4('169.254.169.254')]],
    ['loopback in IPv6', [v6('::1')]],
    ['loopback mapped into IPv6', [v6('::ffff:127.0.0.1')]],
    ['a unique-local address', [v6('fd00:ec2::254')]],
    ['a public address and a private one', [v4(PUBLIC), v4('127.0.0.1')]],
    ['a private address and a public one', [v4('127.0.0.1'), v4(PUBLIC)]],
    ['a public address and one inside IPv6', [v4(PUBLIC), v6('64:ff9b::7f00:1')]],
    ['no address', []],
  ])('is refused behind a name that resolves to %s', async (_what, found) => {
    const lookups = resolveTo(found);
    const baseUrl = `https://models.example.com:${portOf(calls.model.origin)}/v1`;
    expect(await calls.call({ baseUrl, ownerSupplied: true })).toEqual(REFUSED);
    expect([lookups.count(), calls.model.connections]).toEqual([1, 0]);
  });

  test('is reachable if the operator configured it', async () => {
    expect(await calls.call()).toMatchObject({ kind: 'reply' });
  });
});

describe('a host that the operator allows', () => {
  test('is reached over http, and its redirect is not followed', async () => {
    const other = await startScriptedModel();
    const allowedHosts = [new URL(calls.model.origin).host];
    await calls.callGiven(answer.reply('ok'), { ownerSupplied: true, allowedHosts });
    calls.model.reset();
    expect(
      await calls.callGiven(answer.redirect(`${other.url}/canary`), { ownerSupplied: true, allowedHosts }),
    ).toMatchObject({ kind: 'refused', code: 'redirect' });
    expect(other.connections).toBe(0);
    await other.stop();
  });

  test('may be a name that resolves to a private address', async () => {
    const port = portOf(calls.model.origin);
    resolveTo([v4('127.0.0.1')]);
    const changes = { baseUrl: `http://ollama.internal:${port}/v1`, ownerSupplied: true };
    expect(await calls.call({ ...changes, allowedHosts: [`ollama.internal:${port}`] })).toMatchObject({
      kind: 'reply',
    });
    expect(await calls.call({ ...changes, allowedHosts: [`ollama.internal:1${port}`] })).toEqual(REFUSED);
    expect(calls.model.requests).toHaveLength(1);
  });
});

describe('the connected address is the checked address', () => {
  let server: http.Server;
  const reached: { local: string | undefined; kind: 'connection' | 'request' }[] = [];

  beforeAll(async () => {
    server = http.createServer((request, response) => {
      reached.push({ local: request.socket.localAddress, kind: 'request' });
      response.end('{}');
    });
    server.on('connection', (socket) => reached.push({ local: socket.localAddress, kind: 'connection' }));
    await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  });
  afterEach(() => reached.splice(0));
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  const send = (allowsAddress: NonNullable<ExchangeRules['allowsAddress']>, host = 'models.example.com') =>
    exchangeOnce(
      { url: `http://${host}:${(server.address() as AddressInfo).port}/`, headers: {}, body: 'canary' },
      { signal: new AbortController().signal, timeoutMs: 5_000, allowsAddress },
    );

  // 127.0.0.2 replaces a public address here.
  test('even if the next look-up would return another address', async () => {
    const lookups = resolveTo([v4('127.0.0.2')], [v4('127.0.0.1')]);
    expect(await send((address) => address === '127.0.0.2')).toMatchObject({ kind: 'answered', status: 200 });
    expect(lookups.count()).toBe(1);
    expect(reached).toEqual([
      { local: '127.0.0.2', kind: 'connection' },
      { local: '127.0.0.2', kind: 'request' },
    ]);
  });

  test('and a name with an allowed and a refused address is never connected to', async () => {
    resolveTo([v4('127.0.0.2'), v4('127.0.0.1')]);
    expect(await send((address) => address === '127.0.0.2')).toEqual({
      kind: 'connection_failed',
      errorCode: 'ADDRESS_REFUSED',
    });
    expect(reached).toEqual([]);
  });

  test.each(['models.example.com', '127.0.0.2'])(
    'and nothing is sent if the socket has a refused address: %s',
    async (host) => {
      resolveTo([v4('127.0.0.2')]);
      const asked: string[] = [];
      // Allows the address at the look-up, and refuses it for the connected socket.
      const once = (address: string): boolean => asked.push(address) === 1;
      expect(await send(once, host)).toEqual({ kind: 'connection_failed', errorCode: 'ADDRESS_REFUSED' });
      expect(asked).toEqual(['127.0.0.2', '127.0.0.2']);
      expect(reached.filter(({ kind }) => kind === 'request')).toEqual([]);
    },
  );
});
