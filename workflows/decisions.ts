// What a workflow was told of decisions. Said at any time, before the holds are open too, and any number of times.

import type { DecisionNotice } from './messages';
import type { HoldRecord } from './policy/next-move';

export interface Decisions {
  hear(notice: DecisionNotice): void;
  /** A step looked for its yes and found another state. */
  correct(step: string, state: HoldRecord['state']): void;
  /** These holds as they stand by what was heard: in the order in which it was, the others behind. */
  applyTo(opened: readonly HoldRecord[]): HoldRecord[];
}

/** Of one run. Decisions are final, so the first word about a step stands, unless the step itself found otherwise. */
export function createDecisions(): Decisions {
  const heard = new Map<string, HoldRecord['state']>();
  return {
    hear({ step, state }) {
      if (!heard.has(step)) heard.set(step, state);
    },
    correct(step, state) {
      if (state === 'held') heard.delete(step);
      else heard.set(step, state);
    },
    applyTo(opened) {
      const places = new Map([...heard.keys()].map((step, place) => [step, place]));
      const placeOf = ({ key }: HoldRecord): number => places.get(key) ?? places.size;
      return opened
        .map((hold) => ({ key: hold.key, state: hold.state === 'held' ? (heard.get(hold.key) ?? 'held') : hold.state }))
        .sort((a, b) => placeOf(a) - placeOf(b));
    },
  };
}
