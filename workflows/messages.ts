// The signals and the query of a running workflow.

/** The run may be closed, or owned by another execution. The workflow checks through the fence and ends if so. */
export const RECHECK_SIGNAL = 'recheck';

/** A held action was decided or expired: `DecisionNotice`. A repeated signal changes nothing. */
export const DECISION_SIGNAL = 'decision';

/** A decision, as a hint to continue. The step itself checks the approval in the ledger. */
export interface DecisionNotice {
  /** The step's key in the ledger. */
  readonly step: string;
  readonly state: 'approved' | 'declined' | 'expired';
}

/** The progress of the run: `RunProgress`. */
export const STATE_QUERY = 'state';

export interface RunProgress {
  readonly run: string | null;
  readonly at: string;
}
