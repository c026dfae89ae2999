// The tokens of one model request, as far as they are known. Written once in TypeScript and once in SQL; a test
// compares both.

import { Prisma } from '../../generated/client';

/** The columns of a request in the ledger that its usage depends on. */
export interface RequestUse {
  readonly outcome: string;
  readonly httpStatus: number | null;
  readonly inputTokens: bigint | null;
  readonly outputTokens: bigint | null;
}

/**
 * Whether a request may have used tokens that no answer counted: the request is open, was interrupted, or its answer
 * has no count. An error used no tokens, and a refusal without a status never reached a model.
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

/** An exact count for JSON: a number up to 2^53, text above. */
export function exactCount(count: bigint): number | string {
  return count <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(count) : count.toString();
}
