// What can be said to a running workflow.

/** Look again: the run was closed elsewhere, or belongs to another execution. The workflow meets the fence and ends. */
export const RECHECK_SIGNAL = 'recheck';

/** Where the run stands: `RunProgress`. */
export const STATE_QUERY = 'state';

export interface RunProgress {
  readonly run: string | null;
  readonly at: string;
}
