// The next move of a run, from the declared steps, the executed steps and the decisions. Pure: the workflow uses it to act,
// and the store to know whether a run waits for approval or is complete.
//
//   the reply first: go → at once · hold → after approval, and no other step before it · not posted → close
//   then the steps with right `go`, as declared; then each held step after its approval; then close

import type { Rights } from '../contract';
import type { HoldRecord, StepRecord } from './records';
import type { Step } from './steps';

export type { HoldRecord } from './records';

export type Move =
  | { readonly kind: 'act'; readonly step: Step }
  /** No step can act before a decision. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'close' };

/**
 * The next move of an open run. `holds` are in the order of their decisions; a step with right `hold` but without a held
 * action is not executed.
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
