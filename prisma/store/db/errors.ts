// Errors by who must act. The API turns each into one HTTP status, the activities into one failure type.
// Their texts are shown to callers: they name fields, states and limits, never content, keys or SQL.

/** The caller corrects the request. `pointer` is a JSON pointer to the field. */
export class InvalidInput extends Error {
  override readonly name = 'InvalidInput';
  readonly pointer: string | undefined;
  constructor(message: string, pointer?: string) {
    super(message);
    this.pointer = pointer;
  }
}

/** The caller needs another right. */
export class NotAllowed extends Error {
  override readonly name = 'NotAllowed';
}

/** The thing does not exist, or the caller may not know of it. */
export class NotFound extends Error {
  override readonly name = 'NotFound';
}

/** The state does not allow the change; the caller reads again. */
export class Conflict extends Error {
  override readonly name = 'Conflict';
  /** The present state, where states are a closed set. */
  readonly state: string | undefined;
  constructor(message: string, state?: string) {
    super(message);
    this.state = state;
  }
}

/** The thing existed, and its time has passed. */
export class Gone extends Error {
  override readonly name = 'Gone';
  readonly state: string | undefined;
  constructor(message: string, state?: string) {
    super(message);
    this.state = state;
  }
}

/** A search was stopped at its time limit. The caller narrows it. */
export class SearchTooSlow extends Error {
  override readonly name = 'SearchTooSlow';
}

/** Postgres can't answer now; the same call may succeed later. Its outcome is unknown, unless `uncommitted`. */
export class Transient extends Error {
  override readonly name = 'Transient';
  /** Nothing was committed, and nothing will be. */
  readonly uncommitted: boolean;
  constructor(message: string, uncommitted = false) {
    super(message);
    this.uncommitted = uncommitted;
  }
}

/** Another execution owns the run (`not_mine`), or the run is closed. */
export class Fenced extends Error {
  override readonly name = 'Fenced';
  readonly why: 'not_mine' | 'closed';
  constructor(why: 'not_mine' | 'closed') {
    super(`Fenced: ${why}`);
    this.why = why;
  }
}
