// What can be said to a running workflow.

/** Look again: the run was closed elsewhere, or belongs to another execution. The workflow meets the fence and ends. */
export const RECHECK_SIGNAL = 'recheck';

/** An action of the run was decided, or its time is over: `DecisionNotice`. Said again, it changes nothing. */
export const DECISION_SIGNAL = 'decision';

/** What the workflow is told of a decision. Only a hint to go on: the step itself looks whether there is a yes. */
export interface DecisionNotice {
  /** The step's key in the ledger. */
  readonly step: string;
  readonly state: 'approved' | 'declined' | 'expired';
}

/** Where the run stands: `RunProgress`. */
export const STATE_QUERY = 'state';

export interface RunProgress {
  readonly run: string | null;
  readonly at: string;
}
