// The cost of tokens by the operator's price table. Exact: computed with integers, never with binary fractions.

/** The prices of one model, in millionths of a currency unit per million tokens. */
export interface Price {
  readonly inputMicros: bigint;
  readonly outputMicros: bigint;
  /** ISO 4217. */
  readonly currency: string;
}

/** By the name of the model that agents use. */
export type PriceTable = ReadonlyMap<string, Price>;

/** The requests of one model. */
export interface ModelUse {
  readonly model: string | null;
  /** Requests whose tokens are known. */
  readonly counted: number;
  /** Requests that may have used tokens that no answer counted. */
  readonly uncounted: number;
  readonly inputTokens: bigint;
  readonly outputTokens: bigint;
}

export interface Cost {
  /** Decimal text by currency, exact. Null when a price or a count is not known. */
  readonly amounts: Readonly<Record<string, string>> | null;
  readonly unpriced_requests: number;
}

/** The most digits after the point of a price. */
export const PRICE_DECIMALS = 6;
/** Digits after the point of an amount: those of a price, and six for "per million". */
const AMOUNT_DECIMALS = PRICE_DECIMALS + 6;

const DECIMAL = new RegExp(`^(0|[1-9]\\d{0,8})(?:\\.(\\d{1,${PRICE_DECIMALS}}))?$`);

/** A decimal such as `2.50` in exact millionths. Null: not a decimal, or more than six digits after the point. */
export function parseMicros(decimal: string): bigint | null {
  const match = DECIMAL.exec(decimal);
  if (!match) return null;
  return BigInt(`${match[1]}${(match[2] ?? '').padEnd(PRICE_DECIMALS, '0')}`);
}

/**
 * The cost of all requests. One request without a price makes the sum unknown: a partial sum could be taken for the
 * sum.
 */
export function costOf(uses: readonly ModelUse[], prices: PriceTable): Cost {
  let unpriced = 0;
  const totals = new Map<string, bigint>();
  for (const use of uses) {
    unpriced += use.uncounted;
    if (use.counted === 0) continue;
    const price = use.model === null ? undefined : prices.get(use.model);
    if (price === undefined) {
      unpriced += use.counted;
      continue;
    }
    const amount = use.inputTokens * price.inputMicros + use.outputTokens * price.outputMicros;
    totals.set(price.currency, (totals.get(price.currency) ?? 0n) + amount);
  }
  if (unpriced > 0) return { amounts: null, unpriced_requests: unpriced };
  return {
    amounts: Object.fromEntries([...totals].map(([currency, total]) => [currency, decimalOf(total)])),
    unpriced_requests: 0,
  };
}

function decimalOf(amount: bigint): string {
  const digits = amount.toString().padStart(AMOUNT_DECIMALS + 1, '0');
  const point = digits.length - AMOUNT_DECIMALS;
  const fraction = digits.slice(point).replace(/0+$/, '');
  return digits.slice(0, point) + (fraction === '' ? '' : `.${fraction}`);
}
