// How the tools reach the API: by its own routes and nothing else, with the caller's own key. `remote-door.ts` sends over
// the network, `in-process-door.ts` to the very same application; neither knows what a tool is.

/** A request to a route, as a tool makes it. */
export interface DoorRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  readonly idempotencyKey?: string | undefined;
}

/** What came back, a success or a problem. */
export interface DoorAnswer {
  readonly status: number;
  /** As JSON; undefined when it was none. */
  readonly body: unknown;
  readonly retryAfterSeconds: number | null;
  /** The API answered the same request before, and did nothing this time. */
  readonly replayed: boolean;
}

/** @throws Error when no answer came: what was asked for may have been done */
export type Door = (request: DoorRequest) => Promise<DoorAnswer>;

/** The request as HTTP says it, without the caller's key. */
export function writtenOut(request: DoorRequest): {
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
} {
  const asked = Object.entries(request.query ?? {}).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  const query = asked.length === 0 ? '' : `?${new URLSearchParams(asked).toString()}`;
  return {
    path: request.path + query,
    headers: {
      accept: 'application/json',
      ...(request.body !== undefined && { 'content-type': 'application/json' }),
      ...(request.idempotencyKey !== undefined && { 'idempotency-key': request.idempotencyKey }),
    },
    body: request.body === undefined ? undefined : JSON.stringify(request.body),
  };
}

export function answerOf(
  status: number,
  header: (name: string) => string | null | undefined,
  text: string,
): DoorAnswer {
  const retryAfter = header('retry-after');
  return {
    status,
    body: parsed(text),
    retryAfterSeconds: retryAfter && /^\d{1,6}$/.test(retryAfter) ? Number(retryAfter) : null,
    replayed: header('idempotency-replayed') === 'true',
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
