// Selects the entries of a context: all of them if they fit, else the first entries of each section within its share.
// Pure.

import { countTokens, mostTokens } from './tokens';

/** One kind of entry in a context. */
export interface Section<T> {
  /**
   * The most important item first; items that do not fit are omitted from the end. `shown`: its form in the context.
   */
  readonly items: readonly { readonly item: T; readonly shown: unknown }[];
  /** The share of the whole limit. Later sections may use the rest that this section leaves. */
  readonly share: number;
}

export interface Selected<T> {
  readonly kept: Section<T>['items'];
  readonly leftOut: number;
}

export interface Selection<S extends Record<string, Section<unknown>>> {
  readonly sections: { readonly [K in keyof S]: Selected<S[K] extends Section<infer T> ? T : never> };
  /**
   * Tokens of the fixed part and of the kept items. An upper bound if everything fits, because nothing is counted then.
   */
  readonly tokens: number;
}

/** Selects items within `limit` tokens, of which `fixed` already uses a part. Sections take tokens in their order. */
export function select<S extends Record<string, Section<unknown>>>(
  limit: number,
  fixed: string,
  sections: S,
): Selection<S> {
  const written = Object.entries(sections).map(([name, { share, items }]) => ({
    name,
    share,
    items,
    json: items.map(({ shown }) => JSON.stringify(shown)),
  }));
  const pieces = [fixed, ...written.flatMap(({ json }) => json)];
  // One more token for each comma between items.
  const most = pieces.reduce((sum, piece) => sum + mostTokens(piece) + 1, 0);
  const everythingFits = most <= limit;
  let used = everythingFits ? most : countTokens(fixed);
  const selected = written.map(({ name, share, items, json }) => {
    if (everythingFits) return [name, { kept: items, leftOut: 0 }] as const;
    const ceiling = Math.min(limit, used + share * limit);
    let fitting = 0;
    for (const piece of json) {
      const tokens = countTokens(piece) + 1;
      if (used + tokens > ceiling) break;
      used += tokens;
      fitting += 1;
    }
    return [name, { kept: items.slice(0, fitting), leftOut: items.length - fitting }] as const;
  });
  return { sections: Object.fromEntries(selected) as Selection<S>['sections'], tokens: used };
}
