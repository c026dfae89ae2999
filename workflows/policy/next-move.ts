// What a run does next, from what its reply declared, what was done and what was decided. Pure: the workflow asks it what
// to do, and the store asks it whether a run waits for a yes or has nothing left.
//
//   the reply first: go → at once · hold → when its yes comes, and until then nothing · not posted → nothing more
//   then the steps that go, as declared; then each held step when its yes comes; then it is over

import type { Rights } from '../contract';
import type { HoldRecord, StepRecord } from './records';
import type { Step } from './steps';

export type { HoldRecord } from './records';

export type Move =
  | { readonly kind: 'act'; readonly step: Step }
  /** Nothing to do until somebody decides. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'close' };

/**
 * The next move of an open run. `holds` in the order in which their decisions came; a step whose right is `hold` and that
 * has none is not done.
 */
export function nextMove(
  steps: readonly Step[],
  rights: Rights,
  done: readonly StepRecord[],
  holds: readonly HoldRecord[],
): Move {
  const ended = new Map(done.map((record) => [record.key, record.state]));
  const reply = steps.find((step) => step.kind === 'reply');
  if (reply) {
    const state = ended.get(reply.key);
    if (state === undefined) return moveOf(reply, rights, holds);
    if (state !== 'done') return { kind: 'close' };
  }
  const left = steps.filter((step) => !ended.has(step.key));
  const going = left.find((step) => rights[step.kind] === 'go');
  if (going) return { kind: 'act', step: going };
  const approved = holds.find((hold) => hold.state === 'approved' && !ended.has(hold.key));
  const step = left.find((planned) => planned.key === approved?.key);
  if (step) return { kind: 'act', step };
  const isHeld = holds.some((hold) => hold.state === 'held' && !ended.has(hold.key));
  return isHeld ? { kind: 'wait' } : { kind: 'close' };
}

function moveOf(step: Step, rights: Rights, holds: readonly HoldRecord[]): Move {
  switch (rights[step.kind]) {
    case 'go':
      return { kind: 'act', step };
    case 'refuse':
      return { kind: 'close' };
    case 'hold':
      break;
  }
  const state = holds.find((hold) => hold.key === step.key)?.state;
  switch (state) {
    case 'held':
      return { kind: 'wait' };
    case 'approved':
      return { kind: 'act', step };
    case undefined:
    case 'declined':
    case 'expired':
    case 'superseded':
    case 'executed':
    case 'failed':
      return { kind: 'close' };
  }
}
