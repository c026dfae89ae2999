// A small client of the public API.

export class RoomClient {
  private readonly url: string;
  private readonly token: string;

  constructor(url: string, token: string) {
    this.url = url;
    this.token = token;
  }

  /** A client of the same API with another key. */
  as(token: string): RoomClient {
    return new RoomClient(this.url, token);
  }

  async get<T>(path: string): Promise<T> {
    return this.call<T>('GET', path);
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    return this.call<T>('POST', path, body);
  }

  private async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
    return JSON.parse(text) as T;
  }
}

export interface Page<T> {
  readonly data: readonly T[];
  readonly next_cursor: string | null;
}

export interface RoomEvent {
  readonly id: string;
  readonly seq: number;
  readonly type: string;
  readonly at: string;
  readonly company: string | null;
  /** Null if the room itself is the author. */
  readonly author: { readonly kind: string; readonly id: string; readonly name: string } | null;
  readonly data: Record<string, unknown>;
}

export interface Posted {
  readonly id: string;
  readonly seq: number;
  readonly wakes: readonly { readonly agent: string; readonly slug: string; readonly status: string }[];
}

export interface Run {
  readonly id: string;
  readonly agent: string;
  readonly message: string;
  readonly state: string;
  readonly ending: string | null;
  readonly code?: string | null;
  readonly steps?: readonly { readonly key: string; readonly state: string; readonly effect: string | null }[];
  readonly requests?: readonly { readonly number: number; readonly outcome: string }[];
  readonly temporal?: { readonly workflow_id: string; readonly run_id: string | null };
}
