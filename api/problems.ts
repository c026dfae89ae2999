// Error answers: RFC 9457 problems with a code from a closed list. A problem repeats no input and shows no internal
// detail.

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

/** Every problem code. Clients switch on the code; `title` is for people and may change. */
export const PROBLEMS = {
  invalid_input: { status: 400, title: 'Invalid request' },
  malformed_body: { status: 400, title: 'Malformed request body' },
  unauthenticated: { status: 401, title: 'Authentication required' },
  not_allowed: { status: 403, title: 'Not allowed' },
  company_suspended: { status: 403, title: 'Company suspended' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  conflict: { status: 409, title: 'Conflict with the current state' },
  request_in_flight: { status: 409, title: 'Request still in progress' },
  gone: { status: 410, title: 'No longer available' },
  body_too_large: { status: 413, title: 'Request body too large' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  idempotency_key_reused: { status: 422, title: 'Idempotency-Key used for a different request' },
  rate_limited: { status: 429, title: 'Too many requests' },
  internal: { status: 500, title: 'Internal server error' },
  search_too_slow: { status: 503, title: 'Search took too long' },
  unavailable: { status: 503, title: 'Temporarily unavailable' },
} as const satisfies Record<string, { status: number; title: string }>;

export type ProblemCode = keyof typeof PROBLEMS;

/** A part of a request: a JSON pointer into the body, or the name of a parameter or header. */
export type Location = { readonly pointer: string } | { readonly parameter: string };

export interface Fault {
  readonly detail: string;
  readonly location: Location | undefined;
}

/** An error that holds the problem to answer with. */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly code: ProblemCode;
  /** Every fault that was found. The first is the problem's detail. */
  readonly faults: readonly Fault[];
  readonly headers: Readonly<Record<string, string>>;
  /** The current state of the resource, for a conflict with that state. */
  readonly state: string | undefined;

  constructor(
    code: ProblemCode,
    detail: string | readonly Fault[],
    options: { location?: Location; headers?: Record<string, string>; state?: string | undefined } = {},
  ) {
    const faults = typeof detail === 'string' ? [{ detail, location: options.location }] : detail;
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
      ...first?.location,
      ...(this.state !== undefined && { state: this.state }),
      ...(this.faults.length > 1 && {
        errors: this.faults.map(({ detail, location }) => ({ detail, ...location })),
      }),
      request_id: requestId,
    };
  }
}

/** Retry-After when Postgres did not answer. A failover or a restart takes seconds. */
const RETRY_AFTER_SECONDS = 2;

/** The problem for a known error, or null for an unexpected one, which is a bug. */
export function problemOf(error: unknown): Problem | null {
  if (error instanceof Problem) return error;
  if (error instanceof InvalidInput) {
    return new Problem(
      'invalid_input',
      error.message,
      error.pointer === undefined ? {} : { location: { pointer: error.pointer } },
    );
  }
  if (error instanceof NotAllowed) return new Problem('not_allowed', error.message);
  if (error instanceof NotFound) return new Problem('not_found', error.message);
  if (error instanceof Conflict) return new Problem('conflict', error.message, { state: error.state });
  if (error instanceof Gone) return new Problem('gone', error.message, { state: error.state });
  if (error instanceof SearchTooSlow) return new Problem('search_too_slow', error.message);
  if (error instanceof Transient) {
    const detail = 'the database did not answer; a write may or may not have been made';
    return new Problem('unavailable', detail, { headers: { 'Retry-After': String(RETRY_AFTER_SECONDS) } });
  }
  return null;
}

/** The JSON pointer (RFC 6901) of a value in a body. */
export function toPointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** More faults in one answer would not be read. */
const FAULTS_SHOWN = 20;

/** True for a field name that an answer may repeat. Other text may be a secret in the wrong field. */
export function isPlainName(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,39}$/.test(name);
}

/** Turns a schema's issues into a problem that names the locations and repeats no value. */
export function problemOfIssues(issues: readonly z.core.$ZodIssue[], part: 'body' | 'parameters'): Problem {
  const faults = issues.slice(0, FAULTS_SHOWN).flatMap((issue): Fault[] => {
    if (issue.code !== 'unrecognized_keys')
      return [{ detail: `expected ${issue.message}`, location: locationOf(issue.path, part) }];
    const detail = part === 'body' ? 'unknown field' : 'unknown parameter';
    return issue.keys.slice(0, FAULTS_SHOWN).map((key) => ({
      detail,
      location: locationOf(isPlainName(key) ? [...issue.path, key] : issue.path, part),
    }));
  });
  return new Problem('invalid_input', faults);
}

function locationOf(path: readonly PropertyKey[], part: 'body' | 'parameters'): Location | undefined {
  if (part === 'body') return { pointer: toPointer(path) };
  return path.length === 0 ? undefined : { parameter: String(path[0]) };
}
