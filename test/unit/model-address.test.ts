// Which addresses are internal and which are on the public internet, in every notation.

import fc from 'fast-check';
import { isAllowedHost, isPublicAddress, refuseOwnerAddress } from '../../workflows/policy/model-address';
import { normalizeBaseUrl } from '../../workflows/policy/model-endpoint';

/** IPv4 that is not a public host, one of each kind and at the edges of the ranges most used. */
const INSIDE_V4 = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.0',
  '10.255.255.255',
  '100.64.0.1',
  '100.100.100.200',
  '100.127.255.255',
  '127.0.0.1',
  '127.255.255.254',
  '168.63.129.16',
  '169.254.0.1',
  '169.254.169.254',
  '169.254.170.2',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.192',
  '192.0.2.1',
  '192.88.99.1',
  '192.168.0.1',
  '192.168.255.255',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
];

const OUTSIDE_V4 = [
  '1.1.1.1',
  '8.8.8.8',
  '100.63.255.255',
  '100.128.0.1',
  '172.15.255.255',
  '172.32.0.1',
  '192.167.1.1',
];

const INSIDE_V6 = [
  '::',
  '::1',
  '::ffff:0:127.0.0.1',
  '64:ff9b:1::a00:1',
  '100::1',
  'fc00::1',
  'fd00:ec2::254',
  'fd20:ce::254',
  'fdff::1',
  'fe80::1',
  'febf::1',
  'fec0::1',
  'ff02::1',
  '2001::1',
  '2001:0:4136:e378:8000:63bf:f5ff:fffe',
  '2001:10::1',
  '2001:20::1',
  '2001:db8::1',
  '2002:7f00:1::',
  '3fff::1',
  '4000::1',
  '5f00::1',
];

const OUTSIDE_V6 = ['2606:4700::1111', '2001:4860:4860::8888', '2a00:1450:4001:81b::200e', '2620:fe::fe'];

describe('an address', () => {
  test.each([...INSIDE_V4, ...INSIDE_V6])('%s is not public', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  test.each([...OUTSIDE_V4, ...OUTSIDE_V6])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  test.each([
    '',
    'localhost',
    'example.com',
    '1.1.1',
    '134744072',
    '0x8.8.8.8',
    '010.1.1.1',
    '8.8.8.8 ',
    'fe80::1%eth0',
  ])('what is not written as the system writes one is not public: %j', (text) => {
    expect(isPublicAddress(text)).toBe(false);
  });

  test('of IPv6 with an embedded IPv4 address is not public, in any of the embeddings', () => {
    const octet = fc.integer({ min: 0, max: 255 });
    fc.assert(
      fc.property(fc.tuple(octet, octet, octet, octet), ([a, b, c, d]) => {
        const hex = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
        const flipped = `${(((a << 8) | b) ^ 0xffff).toString(16)}:${(((c << 8) | d) ^ 0xffff).toString(16)}`;
        for (const carrying of [
          `::ffff:${a}.${b}.${c}.${d}`,
          `::ffff:${hex}`,
          `::${hex}`,
          `::ffff:0:${hex}`,
          `64:ff9b::${hex}`,
          `64:ff9b:1::${hex}`,
          `2002:${hex}::1`,
          `2001:0:${hex}::1`,
          `2001::${flipped}`,
        ]) {
          expect([carrying, isPublicAddress(carrying)]).toEqual([carrying, false]);
        }
      }),
    );
  });
});

/** The result of the API and the result of the call for an address as its owner typed it. */
function judged(typed: string, allowed: readonly string[] = []): string | null {
  const normalized = normalizeBaseUrl(typed, 'openai_compatible');
  return normalized.ok ? refuseOwnerAddress(normalized.url, allowed) : normalized.reason;
}

describe("an owner's base URL", () => {
  /** 127.0.0.1 and 169.254.169.254 in every notation that a URL takes for an IPv4 address. */
  const NOTATIONS = [
    '127.0.0.1',
    '127.0.0.1.',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7F.0x0.0x0.0x1',
    '0x7f.1',
    '017700000001',
    '0177.0.0.1',
    '0177.0.0.0x1',
    '127.000.000.001',
    '0',
    '１２７.0.0.1',
    '①②⑦.0.0.1',
    '127。0。0。1',
    '%31%32%37.0.0.1',
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '0xA9.0xFE.0xA9.0xFE',
    '0251.0376.0251.0376',
    '025177524776',
    '169.254.43518',
  ];
  const IN_BRACKETS = [
    ...INSIDE_V6,
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '0:0:0:0:0:ffff:a9fe:a9fe',
    '::7f00:1',
    '64:ff9b::7f00:1',
    '2002:a9fe:a9fe::',
  ];
  const NAMES = [
    'localhost',
    'LOCALHOST',
    'localhost.',
    'a.localhost',
    'localhost.localdomain',
    'printer.local',
    'metadata.google.internal',
    'metadata.google.internal.',
    'db.corp',
    'nas.lan',
    'router.home',
    'x.home.arpa',
    '1.0.0.127.in-addr.arpa',
    'postgres',
    'metadata',
  ];

  test.each([...INSIDE_V4, ...NOTATIONS, ...NAMES, ...IN_BRACKETS.map((address) => `[${address}]`)])(
    'https://%s is refused',
    (host) => {
      expect(judged(`https://${host}/v1`)).toBe('The base URL must name a public host.');
    },
  );

  test.each([
    'http://models.example.com',
    'http://8.8.8.8',
    'ftp://models.example.com',
    'file:///etc/passwd',
    'gopher://models.example.com',
    'data:text/plain,x',
    'https://user@models.example.com',
    'https://user:pass@models.example.com',
    'https://models.example.com@127.0.0.1',
  ])('%s is refused', (url) => {
    expect(judged(url)).toEqual(expect.any(String));
  });

  test.each([
    'models.example.com',
    'models.example.com.',
    'localhost.example.com',
    'internal.example.com',
    ...OUTSIDE_V4,
    ...OUTSIDE_V6.map((address) => `[${address}]`),
  ])('https://%s is accepted', (host) => {
    expect(judged(`https://${host}/v1`)).toBeNull();
  });
});

describe('a host that the operator allows', () => {
  const allowed = ['127.0.0.1:11434', 'models.internal:443', '[::1]:8000', 'Ollama.Local:80'];

  test.each([
    'http://127.0.0.1:11434/v1',
    'https://127.0.0.1:11434/v1',
    'http://2130706433:11434',
    'https://models.internal/v1',
    'https://models.internal./v1',
    'https://MODELS.internal:443/v1',
    'http://[::1]:8000/v1',
    'http://ollama.local/v1',
  ])('is accepted, also over http: %s', (url) => {
    expect(judged(url, allowed)).toBeNull();
  });

  test.each([
    'http://127.0.0.1:11435/v1',
    'http://127.0.0.1/v1',
    'http://127.0.0.2:11434/v1',
    'http://models.internal/v1',
    'https://models.internal:8443/v1',
    'https://a.models.internal/v1',
    'https://ollama.local/v1',
    'http://[::1]:8001/v1',
  ])('allows no other port and no other host: %s', (url) => {
    expect(judged(url, allowed)).toEqual(expect.any(String));
    expect(isAllowedHost(url, allowed)).toBe(false);
  });
});
