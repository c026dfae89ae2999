// Pages by key: a page starts after a value, not after a row, so that paging continues when the row is deleted.

/** The requested part of a list. */
export interface PageRequest {
  /** The key after which the page starts, in the requested order; null: at the start. */
  readonly after: string | null;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

export interface Page<T> {
  readonly rows: readonly T[];
  /** The key after which the next page starts, or null when there is none. */
  readonly next: string | null;
}

/** Prisma's arguments for one page by id, with one row more, which shows whether there is a next page. */
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

/** One page of the rows read for it. The last row read may belong to the next page. */
export function pageOf<T>(rows: readonly T[], page: PageRequest, keyOf: (row: T) => string): Page<T> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return { rows: shown, next: rows.length > page.limit && last !== undefined ? keyOf(last) : null };
}
