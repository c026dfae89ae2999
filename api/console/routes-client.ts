// Calls the API's routes in this process, with the key of the person who is signed in.

import type { ApiTransport, ApiResponse } from '../mcp/api-transport';

type Query = Readonly<Record<string, string | number | undefined>>;

/** The fields of a problem document that a page shows. */
export interface ShownProblem {
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly pointer?: string;
}

/** The API answered with a problem. */
export class Refused extends Error {
  override readonly name = 'Refused';
  readonly status: number;
  readonly problem: ShownProblem;
  readonly retryAfterSeconds: number | null;

  constructor({ status, body, retryAfterSeconds }: ApiResponse) {
    const problem = body as ShownProblem;
    super(problem.detail);
    this.status = status;
    this.problem = problem;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export interface Page<T> {
  readonly data: readonly T[];
  readonly next_cursor: string | null;
}

export interface RoutesClient {
  /** @throws Refused */
  get<T>(path: string, query?: Query): Promise<T>;
  /** As `get`, but null instead of a 404. */
  find<T>(path: string, query?: Query): Promise<T | null>;
  /** The first page of a list. */
  list<T>(path: string, query?: Query): Promise<readonly T[]>;
  /** @throws Refused */
  post<T>(path: string, body: unknown, idempotencyKey: string | undefined): Promise<T>;
}

export function routesClient(transport: ApiTransport): RoutesClient {
  const get = async <T>(path: string, query: Query = {}): Promise<T> =>
    bodyOf(await transport({ method: 'GET', path, query })) as T;
  return {
    get,
    find: async <T>(path: string, query?: Query) => {
      try {
        return await get<T>(path, query);
      } catch (error) {
        if (error instanceof Refused && error.status === 404) return null;
        throw error;
      }
    },
    list: async <T>(path: string, query?: Query) => (await get<Page<T>>(path, query)).data,
    post: async <T>(path: string, body: unknown, idempotencyKey: string | undefined) =>
      bodyOf(await transport({ method: 'POST', path, body, idempotencyKey })) as T,
  };
}

function bodyOf(answer: ApiResponse): unknown {
  if (answer.status >= 300) throw new Refused(answer);
  return answer.body;
}
