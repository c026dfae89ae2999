// Every answer that is not a success: RFC 9457, with a code from a closed list. Nothing here repeats what was sent, and
// nothing tells what went wrong inside.

import type { z } from 'zod';
import {
  Conflict,
  Gone,
  InvalidInput,
  NotAllowed,
  NotFound,
  SearchTooSlow,
  Transient,
} from '../prisma/store/db/errors';

/** What a client switches on. `title` is for people and may change. */
export const PROBLEMS = {
  invalid_input: { status: 400, title: 'The request is not valid' },
  malformed_body: { status: 400, title: 'The body is not usable JSON' },
  unauthenticated: { status: 401, title: 'A valid key is needed' },
  not_allowed: { status: 403, title: 'The key may not do this' },
  company_suspended: { status: 403, title: 'The company is suspended' },
  not_found: { status: 404, title: 'There is no such thing' },
  method_not_allowed: { status: 405, title: 'The method is not allowed here' },
  conflict: { status: 409, title: 'The state is another one' },
  request_in_flight: { status: 409, title: 'The same request is under way' },
  gone: { status: 410, title: 'Its time has passed' },
  body_too_large: { status: 413, title: 'The body is too large' },
  unsupported_media_type: { status: 415, title: 'The body is of an unsupported type' },
  idempotency_key_reused: { status: 422, title: 'The Idempotency-Key was used for another request' },
  rate_limited: { status: 429, title: 'Too much at once' },
  internal: { status: 500, title: 'Something went wrong on our side' },
  search_too_slow: { status: 503, title: 'The search took too long' },
  unavailable: { status: 503, title: 'Try again in a moment' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ProblemCode = keyof typeof PROBLEMS;

/** Which part of a request is meant: a JSON pointer into the body, or the name of a query or path parameter. */
export type Place = { readonly pointer: string } | { readonly parameter: string };

export interface Fault {
  readonly detail: string;
  readonly place: Place | undefined;
}

/** A problem to answer with. */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly code: ProblemCode;
  /** All that is wrong, the first of which gives the problem its detail. */
  readonly faults: readonly Fault[];
  readonly headers: Readonly<Record<string, string>>;
  /** The state that something is in, where a conflict is about that. */
  readonly state: string | undefined;

  constructor(
    code: ProblemCode,
    detail: string | readonly Fault[],
    options: { place?: Place; headers?: Record<string, string>; state?: string | undefined } = {},
  ) {
    const faults = typeof detail === 'string' ? [{ detail, place: options.place }] : detail;
    super(faults[0]?.detail ?? code);
    this.code = code;
    this.faults = faults;
    this.headers = options.headers ?? {};
    this.state = options.state;
  }

  get status(): number {
    return PROBLEMS[this.code].status;
  }

  /** The body of the answer. */
  toBody(requestId: string): Record<string, unknown> {
    const [first] = this.faults;
    const { status, title } = PROBLEMS[this.code];
    return {
      type: `urn:durable-room:problem:${this.code}`,
      title,
      status,
      code: this.code,
      detail: first?.detail ?? title,
      ...first?.place,
      ...(this.state !== undefined && { state: this.state }),
      ...(this.faults.length > 1 && {
        errors: this.faults.map(({ detail, place }) => ({ detail, ...place })),
      }),
      request_id: requestId,
    };
  }
}

/** How long a client waits when Postgres could not answer: a failover or a restart takes seconds. */
const RETRY_AFTER_SECONDS = 2;

/** The problem that an error is to the caller, or null when it is a bug of ours. */
export function problemOf(error: unknown): Problem | null {
  if (error instanceof Problem) return error;
  if (error instanceof InvalidInput) {
    return new Problem(
      'invalid_input',
      error.message,
      error.pointer === undefined ? {} : { place: { pointer: error.pointer } },
    );
  }
  if (error instanceof NotAllowed) return new Problem('not_allowed', error.message);
  if (error instanceof NotFound) return new Problem('not_found', error.message);
  if (error instanceof Conflict) return new Problem('conflict', error.message, { state: error.state });
  if (error instanceof Gone) return new Problem('gone', error.message, { state: error.state });
  if (error instanceof SearchTooSlow) return new Problem('search_too_slow', error.message);
  if (error instanceof Transient) {
    const detail = 'the database did not answer; a write may have been carried out or not';
    return new Problem('unavailable', detail, { headers: { 'Retry-After': String(RETRY_AFTER_SECONDS) } });
  }
  return null;
}

/** Where a value stands in a body, as RFC 6901 writes it. */
export function toPointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** As many faults as a person reads at once. */
const FAULTS_SHOWN = 20;

/** True for a name that is safe to repeat: a secret pasted in a name's place is not. */
export function isPlainName(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,39}$/.test(name);
}

/** What a schema expected, as a problem that names the places and none of the values. */
export function problemOfIssues(issues: readonly z.core.$ZodIssue[], part: 'body' | 'parameters'): Problem {
  const faults = issues.slice(0, FAULTS_SHOWN).flatMap((issue): Fault[] => {
    if (issue.code !== 'unrecognized_keys')
      return [{ detail: `expected ${issue.message}`, place: placeOf(issue.path, part) }];
    const detail = part === 'body' ? 'unknown field' : 'unknown parameter';
    return issue.keys.slice(0, FAULTS_SHOWN).map((key) => ({
      detail,
      place: placeOf(isPlainName(key) ? [...issue.path, key] : issue.path, part),
    }));
  });
  return new Problem('invalid_input', faults);
}

function placeOf(path: readonly PropertyKey[], part: 'body' | 'parameters'): Place | undefined {
  if (part === 'body') return { pointer: toPointer(path) };
  return path.length === 0 ? undefined : { parameter: String(path[0]) };
}
