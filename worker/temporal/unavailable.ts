// The one error of everything that connects to Temporal.

/** A Temporal that could not be reached or used. The message is for the operator. */
export class TemporalUnavailable extends Error {
  override readonly name = 'TemporalUnavailable';
  /** False when a later attempt could succeed. */
  readonly needsMending: boolean;
  constructor(message: string, needsMending = true) {
    super(message);
    this.needsMending = needsMending;
  }
}
