// Pages by key: what a page starts after is a value, not a row, so that it goes on when the row is gone.

/** Which part of a list is asked for. */
export interface PageRequest {
  /** The key after which the page starts, in the order asked for; null: at the start. */
  readonly after: string | null;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

export interface Page<T> {
  readonly rows: readonly T[];
  /** Where the next page starts, or null when there is none. */
  readonly next: string | null;
}

/** What Prisma is asked for one page by id, and one row more to know whether there is a next. */
export function byId(page: PageRequest): {
  where: { id?: { gt: string } | { lt: string } };
  orderBy: { id: 'asc' | 'desc' };
  take: number;
} {
  return { where: keysetOf(page), orderBy: { id: page.order }, take: page.limit + 1 };
}

function keysetOf({ after, order }: PageRequest): { id?: { gt: string } | { lt: string } } {
  if (after === null) return {};
  return { id: order === 'asc' ? { gt: after } : { lt: after } };
}

/** One page out of the rows read for it, of which the last may be the next page's first. */
export function pageOf<T>(rows: readonly T[], page: PageRequest, keyOf: (row: T) => string): Page<T> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return { rows: shown, next: rows.length > page.limit && last !== undefined ? keyOf(last) : null };
}
