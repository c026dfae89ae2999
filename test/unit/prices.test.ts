// Prices and costs: exact, and unknown if a part is unknown.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { readApiConfig } from '../../api/config';
import { readPriceTable } from '../../api/price-table';
import { costOf, parseMicros, type PriceTable } from '../../workflows/policy/prices';

const TABLE: PriceTable = new Map([
  ['small', { inputMicros: 150_000n, outputMicros: 600_000n, currency: 'USD' }],
  ['large', { inputMicros: 1_250_000n, outputMicros: 10_000_000n, currency: 'USD' }],
  ['house', { inputMicros: 0n, outputMicros: 1n, currency: 'EUR' }],
]);
const use = (model: string | null, inputTokens: bigint, outputTokens: bigint, counted = 1, uncounted = 0) => ({
  model,
  inputTokens,
  outputTokens,
  counted,
  uncounted,
});

test.each([
  ['0', 0n],
  ['0.000001', 1n],
  ['1.25', 1_250_000n],
  ['10', 10_000_000n],
  ['999999999.999999', 999_999_999_999_999n],
  ['0.0000001', null],
  ['-1', null],
  ['1e3', null],
  ['01', null],
  ['.5', null],
  ['1.', null],
  ['1,5', null],
  ['', null],
  ['NaN', null],
])('%j is %s millionths', (decimal, micros) => {
  expect(parseMicros(decimal)).toBe(micros);
});

test.each([
  ['no use has no cost', [], { amounts: {}, unpriced_requests: 0 }],
  [
    'one token of the smallest price',
    [use('house', 5n, 1n)],
    { amounts: { EUR: '0.000000000001' }, unpriced_requests: 0 },
  ],
  ['a million each', [use('large', 1_000_000n, 1_000_000n)], { amounts: { USD: '11.25' }, unpriced_requests: 0 }],
  [
    'amounts of one currency are summed, and other currencies are listed separately',
    [use('small', 120n, 30n), use('large', 1n, 0n), use('house', 0n, 3_000_000n)],
    { amounts: { USD: '0.00003725', EUR: '0.000003' }, unpriced_requests: 0 },
  ],
  ['a model without a price', [use('small', 1n, 1n), use('other', 9n, 9n, 4)], { amounts: null, unpriced_requests: 4 }],
  ['no model', [use(null, 9n, 9n, 2)], { amounts: null, unpriced_requests: 2 }],
  ['an unknown count', [use('small', 1n, 1n, 1, 3)], { amounts: null, unpriced_requests: 3 }],
  ['requests that used nothing need no price', [use('other', 0n, 0n, 0)], { amounts: {}, unpriced_requests: 0 }],
])('%s', (_, uses, cost) => {
  expect(costOf(uses, TABLE)).toEqual(cost);
});

test('an amount is exactly tokens times price, however large', () => {
  const tokens = fc.bigInt(0n, 2n ** 63n - 1n);
  const micros = fc.bigInt(0n, 999_999_999_999_999n);
  fc.assert(
    fc.property(tokens, tokens, micros, micros, (input, output, inputMicros, outputMicros) => {
      const { amounts } = costOf(
        [use('m', input, output)],
        new Map([['m', { inputMicros, outputMicros, currency: 'USD' }]]),
      );
      const [whole = '', fraction = ''] = (amounts?.['USD'] ?? '').split('.');
      expect(BigInt(whole + fraction.padEnd(12, '0'))).toBe(input * inputMicros + output * outputMicros);
      expect(fraction).not.toMatch(/0$/);
    }),
  );
});

describe('the table that the operator sets', () => {
  const PRICES = { small: { input_per_million: 0.15, output_per_million: '0.60', currency: 'USD' } };
  const READ = new Map([['small', TABLE.get('small')]]);
  const config = (MODEL_PRICES?: string) =>
    readApiConfig({
      DATABASE_URL: 'postgresql://user@localhost/db',
      MASTER_KEYS: `k1:${Buffer.alloc(32).toString('base64')}`,
      MODEL_PRICES,
    }).prices;

  test('is JSON, the name of a file with JSON, or empty', () => {
    expect(config(JSON.stringify(PRICES))).toEqual(READ);
    const folder = mkdtempSync(join(tmpdir(), 'durable-room-prices-'));
    try {
      writeFileSync(join(folder, 'prices.json'), JSON.stringify(PRICES));
      expect(config(join(folder, 'prices.json'))).toEqual(READ);
    } finally {
      rmSync(folder, { recursive: true });
    }
    expect(config().size).toBe(0);
    expect(config('').size).toBe(0);
  });

  const entry = (change: object) => JSON.stringify({ small: { ...PRICES.small, ...change } });
  test.each([
    ['/no/canary.json', /JSON, or the path of a readable file/],
    ['{"canary"', /a JSON object of prices by model/],
    [JSON.stringify({ small: null }), /at small: /],
    [JSON.stringify({ small: {} }), /at small \/ input_per_million: a decimal/],
    [entry({ input_per_million: -1 }), /at small \/ input_per_million: a decimal/],
    [entry({ output_per_million: 'canary' }), /at small \/ output_per_million: a decimal/],
    [entry({ output_per_million: 1e-7 }), /at small \/ output_per_million: a decimal/],
    [entry({ currency: 'canary' }), /at small \/ currency: a currency such as USD/],
    [entry({ currency: undefined }), /at small \/ currency: a currency such as USD/],
    [entry({ cached: 'canary' }), /at small: /],
    [JSON.stringify({ '': PRICES.small }), /\S/],
  ])('%s is refused, and the error does not repeat it', (setting, saying) => {
    expect(() => readPriceTable(setting)).toThrow(saying);
    expect(() => config(setting)).toThrow(/^The API's configuration is not usable:\n {2}MODEL_PRICES: expected \S/);
    expect(() => config(setting)).not.toThrow(/canary/);
  });
});
