// The decisions that a workflow received. A notice may come before the holds are open, and more than once.

import type { DecisionNotice } from './messages';
import type { HoldRecord } from './policy/next-move';

export interface Decisions {
  /** Only the first notice of a step counts. */
  record(notice: DecisionNotice): void;
  /** The step was executed without approval and found this state in the ledger, which replaces the notice. */
  correct(step: string, state: HoldRecord['state']): void;
  /** The holds with their decisions: decided holds first, in the order of their notices. */
  applyTo(opened: readonly HoldRecord[]): HoldRecord[];
}

/** The decisions of one run. Decisions are final, so the first notice counts unless the step corrects it. */
export function createDecisions(): Decisions {
  const received = new Map<string, HoldRecord['state']>();
  return {
    record({ step, state }) {
      if (!received.has(step)) received.set(step, state);
    },
    correct(step, state) {
      if (state === 'held') received.delete(step);
      else received.set(step, state);
    },
    applyTo(opened) {
      const ranks = new Map([...received.keys()].map((step, rank) => [step, rank]));
      const rankOf = ({ key }: HoldRecord): number => ranks.get(key) ?? ranks.size;
      return opened
        .map((hold) => ({
          key: hold.key,
          state: hold.state === 'held' ? (received.get(hold.key) ?? 'held') : hold.state,
        }))
        .sort((a, b) => rankOf(a) - rankOf(b));
    },
  };
}
