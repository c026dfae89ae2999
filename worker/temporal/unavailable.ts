// The error of every connection to Temporal that failed.

/** Temporal could not be reached or used. The message is for the operator, not for API clients. */
export class TemporalUnavailable extends Error {
  override readonly name = 'TemporalUnavailable';
  /** True if the operator must change something; false if a later try may succeed. */
  readonly needsFix: boolean;
  constructor(message: string, needsFix = true) {
    super(message);
    this.needsFix = needsFix;
  }
}
