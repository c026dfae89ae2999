// How tools and console pages call the API: through its public routes, with the caller's own key. `http-transport.ts` sends
// requests over the network, `in-process-transport.ts` sends them to the application of this process.

/** A request to a route of the API. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  readonly idempotencyKey?: string | undefined;
}

/** A success or a problem. */
export interface ApiResponse {
  readonly status: number;
  /** The parsed JSON; undefined if the body is not JSON. */
  readonly body: unknown;
  readonly retryAfterSeconds: number | null;
  /** True if the API returned the stored answer to an earlier request with the same idempotency key. */
  readonly replayed: boolean;
}

/** @throws Error if no response arrives; the API may or may not have executed the request. */
export type ApiTransport = (request: ApiRequest) => Promise<ApiResponse>;

/** The request as HTTP path, headers and body, without the caller's key. */
export function serializeRequest(request: ApiRequest): {
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
} {
  const given = Object.entries(request.query ?? {}).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  const query = given.length === 0 ? '' : `?${new URLSearchParams(given).toString()}`;
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

export function toApiResponse(
  status: number,
  header: (name: string) => string | null | undefined,
  text: string,
): ApiResponse {
  const retryAfter = header('retry-after');
  return {
    status,
    body: parseJson(text),
    retryAfterSeconds: retryAfter && /^\d{1,6}$/.test(retryAfter) ? Number(retryAfter) : null,
    replayed: header('idempotency-replayed') === 'true',
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
