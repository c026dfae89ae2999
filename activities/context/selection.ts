// Which of what was read goes into a context: all of it where it fits, else the first of each kind within its share. Pure.

import { countTokens, mostTokens } from './tokens';

/** One kind of thing that a context holds. */
export interface Section<T> {
  /** What matters most first: what does not fit is left out from the end. `shown`: as the context shows it. */
  readonly items: readonly { readonly item: T; readonly shown: unknown }[];
  /** Of the whole bound; what a section does not use is left to those after it. */
  readonly share: number;
}

export interface Selected<T> {
  readonly kept: Section<T>['items'];
  readonly leftOut: number;
}

export interface Selection<S extends Record<string, Section<unknown>>> {
  readonly sections: { readonly [K in keyof S]: Selected<S[K] extends Section<infer T> ? T : never> };
  /** Tokens of the fixed part and of what was kept; at most as many where nothing had to be counted. */
  readonly tokens: number;
}

/** Selects within `limit` tokens, of which `fixed` is taken already. In the order in which the sections stand. */
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
  // One more of each, for the comma between.
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
