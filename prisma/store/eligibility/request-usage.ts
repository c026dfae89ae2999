// What one model request used, as far as anybody knows. Said once for rows in hand and once for SQL; a test compares them.

import { Prisma } from '../../generated/client';

/** What the ledger holds of a request's use. */
export interface RequestUse {
  readonly outcome: string;
  readonly httpStatus: number | null;
  readonly inputTokens: bigint | null;
  readonly outputTokens: bigint | null;
}

/**
 * Whether tokens may have been used that nobody counted: the request is out, was cut off, or its answer told no count.
 * An answer that is an error used none, and a refusal without a status never reached a model.
 */
export function isUncounted(request: RequestUse): boolean {
  if (request.inputTokens !== null && request.outputTokens !== null) return false;
  if (!['retry', 'busy', 'refused'].includes(request.outcome)) return true;
  if (request.httpStatus === null) return request.outcome !== 'refused';
  return request.httpStatus >= 200 && request.httpStatus <= 299;
}

/** `isUncounted` of a row of `model_requests`, by the bare names of its columns. */
export const IS_UNCOUNTED = Prisma.sql`(
  (input_tokens IS NULL OR output_tokens IS NULL)
  AND NOT (outcome IN ('retry', 'busy', 'refused')
           AND coalesce(http_status NOT BETWEEN 200 AND 299, outcome = 'refused')))`;

/** A count that loses nothing in JSON: a number while it is exact, text beyond 2^53. */
export function exactCount(count: bigint): number | string {
  return count <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(count) : count.toString();
}
