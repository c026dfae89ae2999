// The operator's price table: a JSON object of prices by model name. The variable holds the JSON or the path of a file.

import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { parseMicros, PRICE_DECIMALS, type PriceTable } from '../workflows/policy/prices';

const price = z.union([z.string(), z.number()], 'a decimal that is at least 0').transform((given, context) => {
  // String() of a JSON number gives back the decimal as written, for far more digits than a price has.
  const micros = parseMicros(String(given));
  if (micros !== null) return micros;
  context.addIssue({
    code: 'custom',
    message: `a decimal that is at least 0 and has at most ${PRICE_DECIMALS} decimals`,
  });
  return z.NEVER;
});

const table = z.record(
  z.string().min(1).max(200),
  z.strictObject(
    {
      input_per_million: price,
      output_per_million: price,
      currency: z.string('a currency such as USD').regex(/^[A-Z]{3}$/, 'a currency such as USD'),
    },
    '{"input_per_million", "output_per_million", "currency"}',
  ),
  'an object of prices by model',
);

/** Reads a price table. @throws Error that names the location of the fault and repeats no value */
export function readPriceTable(setting: string): PriceTable {
  const parsed = table.safeParse(parseJson(setting.trimStart().startsWith('{') ? setting : readFile(setting)));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const location = (issue?.path ?? []).map(String).join(' / ');
    throw new Error(`${location === '' ? '' : `at ${location}: `}${issue?.message ?? 'an object of prices by model'}`);
  }
  return new Map(
    Object.entries(parsed.data).map(([model, { input_per_million, output_per_million, currency }]) => [
      model,
      { inputMicros: input_per_million, outputMicros: output_per_million, currency },
    ]),
  );
}

function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new Error('JSON, or the path of a readable file');
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('a JSON object of prices by model');
  }
}
