// The next move of a run while some of its actions wait for approval, and how the run then ends.

import fc from 'fast-check';
import {
  HELD_ACTION_STATES,
  type StepKind,
  type HeldActionState,
  type Right,
  type Rights,
} from '../../workflows/contract';
import { createDecisions } from '../../workflows/decisions';
import { computeEnding, type CloseReason, type StepRecord } from '../../workflows/policy/ending';
import { nextMove, type HoldRecord } from '../../workflows/policy/next-move';
import { perStepKind, actionOf, planSteps, stepsToHold } from '../../workflows/policy/steps';

const ALL_GO: Rights = perStepKind(() => 'go');
const ALL_HELD: Rights = perStepKind(() => 'hold');
const EVERYTHING: StepKind[] = ['reply', 'memory', 'task_update', 'task_send'];
const ENDED: CloseReason = { kind: 'ended' };

const done = (...keys: string[]): StepRecord[] => keys.map((key) => ({ key, state: 'done', code: null }));
const held = (states: Record<string, HeldActionState>): HoldRecord[] =>
  Object.entries(states).map(([key, state]) => ({ key, state }));

function move(rights: Partial<Rights>, records: StepRecord[], holds: HoldRecord[], kinds = EVERYTHING): string {
  const next = nextMove(planSteps(kinds), { ...ALL_GO, ...rights }, records, holds);
  return next.kind === 'act' ? next.step.key : next.kind;
}

describe('the next move', () => {
  test.each<[string, Partial<Rights>, StepRecord[], HoldRecord[], string]>([
    ['nothing while the reply is held', { reply: 'hold' }, [], held({ reply: 'held' }), 'wait'],
    [
      'nothing while the reply is held, even with another approval',
      ALL_HELD,
      [],
      held({ task_send: 'approved', reply: 'held' }),
      'wait',
    ],
    ['the reply after its approval', ALL_HELD, [], held({ reply: 'approved', memory: 'held' }), 'reply'],
    [
      'nothing more after the reply is declined',
      ALL_HELD,
      [],
      held({ reply: 'declined', memory: 'approved' }),
      'close',
    ],
    ['nothing more after the reply expired', ALL_HELD, [], held({ reply: 'expired', memory: 'held' }), 'close'],
    [
      'steps without a hold, before approved steps',
      { memory: 'hold' },
      done('reply'),
      held({ memory: 'approved' }),
      'task_update:1',
    ],
    [
      'then approved steps',
      { memory: 'hold' },
      done('reply', 'task_update:1', 'task_send:1'),
      held({ memory: 'approved' }),
      'memory',
    ],
    [
      'the first of two approvals first',
      ALL_HELD,
      done('reply'),
      held({ 'task_send:1': 'approved', memory: 'approved', 'task_update:1': 'held' }),
      'task_send:1',
    ],
    [
      'a wait for the last decision',
      { task_send: 'hold' },
      done('reply', 'memory', 'task_update:1'),
      held({ 'task_send:1': 'held' }),
      'wait',
    ],
    [
      'the end after the last action is declined',
      { task_send: 'hold' },
      done('reply', 'memory', 'task_update:1'),
      held({ 'task_send:1': 'declined' }),
      'close',
    ],
    ['the end if no hold was opened', { task_send: 'hold' }, done('reply', 'memory', 'task_update:1'), [], 'close'],
  ])('%s', (_, rights, records, holds, expected) => {
    expect(move(rights, records, holds)).toBe(expected);
  });

  test('a held reply that was never opened closes the run', () => {
    expect(move({ reply: 'hold' }, [], [])).toBe('close');
  });

  test('every step with the right `hold` is opened, and none if the reply is refused', () => {
    const keys = (rights: Partial<Rights>, kinds = EVERYTHING): string[] =>
      stepsToHold(planSteps(kinds), { ...ALL_GO, ...rights }).map((step) => step.key);
    expect(keys({})).toEqual([]);
    expect(keys(ALL_HELD)).toEqual(['reply', 'memory', 'task_update:1', 'task_send:1']);
    expect(keys({ memory: 'hold', task_send: 'hold' })).toEqual(['memory', 'task_send:1']);
    expect(keys({ ...ALL_HELD, reply: 'refuse' })).toEqual([]);
    expect(keys({ ...ALL_HELD, reply: 'refuse' }, ['memory'])).toEqual(['memory']);
  });

  test('for all decisions in any order: no held step acts without approval, and no step acts if the reply was not posted', () => {
    const anyDecision = fc.constantFrom<HeldActionState>('approved', 'declined', 'expired');
    const anyRights = fc.record<Record<StepKind, Right>>({
      ...perStepKind(() => fc.constantFrom('go', 'hold')),
      reply: fc.constantFrom('go' as const, 'hold' as const),
      memory: fc.constantFrom('go' as const, 'hold' as const, 'refuse' as const),
      task_update: fc.constantFrom('go' as const, 'hold' as const),
      task_send: fc.constantFrom('go' as const, 'hold' as const),
    });
    const kinds: StepKind[] = ['reply', 'memory', 'task_update', 'task_update', 'task_send', 'task_send'];
    const steps = planSteps(kinds);
    fc.assert(
      fc.property(
        anyRights,
        fc.shuffledSubarray(steps, { minLength: steps.length }),
        fc.array(anyDecision, { minLength: steps.length, maxLength: steps.length }),
        (rights, order, answers) => {
          const opened = stepsToHold(steps, rights).map((step): HoldRecord => ({ key: step.key, state: 'held' }));
          const decisions = createDecisions();
          const acted: StepRecord[] = [];
          const toDecide = order.filter((step) => rights[step.kind] === 'hold');
          for (let turn = 0; turn < 50; turn += 1) {
            const holds = decisions.applyTo(opened);
            const next = nextMove(steps, rights, acted, holds);
            if (next.kind === 'close') break;
            if (next.kind === 'act') {
              const { key, kind } = next.step;
              if (rights[kind] === 'hold') expect(holds.find((hold) => hold.key === key)?.state).toBe('approved');
              if (kind !== 'reply') expect(acted[0]?.key).toBe('reply');
              expect(acted.map((record) => record.key)).not.toContain(key);
              acted.push({ key, state: 'done', code: null });
            } else {
              const step = toDecide.shift();
              if (!step) throw new Error('the run waits although all actions are decided');
              decisions.record({ step: step.key, state: answers[steps.indexOf(step)] as 'approved' });
            }
          }
          const holds = decisions.applyTo(opened);
          expect(nextMove(steps, rights, acted, holds).kind).toBe('close');
          const { ending, missing } = computeEnding({ steps, rights, done: acted, holds, requests: [] }, ENDED);
          const reply = holds.find((hold) => hold.key === 'reply')?.state ?? 'approved';
          expect(ending).toBe(reply === 'approved' ? 'replied' : reply);
          for (const hold of holds) {
            const state = [...acted, ...missing].find((record) => record.key === hold.key)?.state;
            if (reply !== 'approved' && hold.key !== 'reply') expect(state).toBe('superseded');
            else expect(state).toBe(hold.state === 'approved' ? 'done' : hold.state);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('the ending of a run with held actions', () => {
  const outcome = (
    rights: Partial<Rights>,
    records: StepRecord[],
    holds: HoldRecord[],
    reason: CloseReason = ENDED,
  ) => {
    const steps = planSteps(EVERYTHING);
    const all = { steps, rights: { ...ALL_GO, ...rights }, done: records, holds, requests: [] };
    const { ending, code, missing } = computeEnding(all, reason);
    return [ending, code, missing.map((step) => `${step.key}=${step.state}`).join(' ')];
  };
  const REST = 'memory=superseded task_update:1=superseded task_send:1=superseded';

  test.each<[string, Partial<Rights>, StepRecord[], HoldRecord[], CloseReason, (string | null)[]]>([
    [
      'the reply declined',
      { reply: 'hold' },
      [],
      held({ reply: 'declined' }),
      ENDED,
      ['declined', null, `reply=declined ${REST}`],
    ],
    [
      'the reply expired',
      { reply: 'hold' },
      [],
      held({ reply: 'expired' }),
      ENDED,
      ['expired', null, `reply=expired ${REST}`],
    ],
    [
      'a later step declined, another expired',
      { memory: 'hold', task_send: 'hold' },
      done('reply', 'task_update:1'),
      held({ memory: 'declined', 'task_send:1': 'expired' }),
      ENDED,
      ['replied', null, 'memory=declined task_send:1=expired'],
    ],
    [
      'cancelled while parked',
      { memory: 'hold', task_send: 'hold' },
      done('reply', 'task_update:1'),
      held({ memory: 'held', 'task_send:1': 'approved' }),
      { kind: 'cancelled' },
      ['cancelled', null, 'memory=superseded task_send:1=superseded'],
    ],
    [
      'out of time before its holds were opened',
      { reply: 'hold' },
      [],
      [],
      { kind: 'timed_out' },
      ['timed_out', null, `reply=not_reached ${REST}`],
    ],
    [
      'the attempt of an approved step failed',
      { memory: 'hold', task_send: 'hold' },
      done('reply', 'task_update:1'),
      held({ memory: 'approved', 'task_send:1': 'held' }),
      { kind: 'failed', code: 'no_answer', step: 'memory' },
      ['partial', 'no_answer', 'memory=failed task_send:1=superseded'],
    ],
    [
      'a failure while the reply waited',
      { reply: 'hold' },
      [],
      held({ reply: 'held' }),
      { kind: 'failed', code: 'internal' },
      ['failed', 'internal', `reply=superseded ${REST}`],
    ],
    [
      'a failure while a later step waited',
      { task_send: 'hold' },
      done('reply', 'memory', 'task_update:1'),
      held({ 'task_send:1': 'held' }),
      { kind: 'failed', code: 'internal' },
      ['partial', 'internal', 'task_send:1=superseded'],
    ],
  ])('%s', (_, rights, records, holds, reason, expected) => {
    expect(outcome(rights, records, holds, reason)).toEqual(expected);
  });

  test('an expired reply never ends as declined, and a declined reply never ends as expired', () => {
    for (const state of ['declined', 'expired'] as const) {
      for (const kind of ['lost', 'cancelled', 'timed_out', 'ended'] as const) {
        const [, , states] = outcome({ task_send: 'hold' }, done('reply'), held({ 'task_send:1': state }), { kind });
        expect(states).toContain(`task_send:1=${state}`);
      }
    }
  });
});

describe('the decisions that a workflow receives', () => {
  test('the first decision about a step counts, in the order of arrival', () => {
    const decisions = createDecisions();
    decisions.record({ step: 'task_send:1', state: 'approved' });
    decisions.record({ step: 'task_send:1', state: 'declined' });
    decisions.record({ step: 'memory', state: 'declined' });
    expect(decisions.applyTo(held({ reply: 'held', memory: 'held', 'task_send:1': 'held' }))).toEqual(
      held({ 'task_send:1': 'approved', memory: 'declined', reply: 'held' }),
    );
  });

  test('the state of an opened hold wins over a signal, and a step that finds no approval withdraws the signal', () => {
    const decisions = createDecisions();
    decisions.record({ step: 'reply', state: 'approved' });
    expect(decisions.applyTo(held({ reply: 'expired' }))).toEqual(held({ reply: 'expired' }));
    decisions.correct('reply', 'held');
    expect(decisions.applyTo(held({ reply: 'held' }))).toEqual(held({ reply: 'held' }));
    decisions.correct('reply', 'declined');
    expect(decisions.applyTo(held({ reply: 'held' }))).toEqual(held({ reply: 'declined' }));
  });
});

test('the action of a step equals its declaration', () => {
  const send = { to: 'scout', goal: 'g', acceptance_criteria: [], priority: 'normal', deadline: null } as const;
  const reply = {
    reply: 'Hello.',
    memory: { category: 'fact', content: 'c', tags: [], visibility: 'shared' } as const,
    task_updates: [{ task: 't', state: 'done', result: 'r' } as const],
    tasks_to_send: [send, { ...send, to: 'clerk' }],
  };
  const steps = planSteps(['reply', 'memory', 'task_update', 'task_send', 'task_send']);
  expect(steps.map((step) => actionOf(reply, step))).toEqual([
    { kind: 'reply', text: 'Hello.' },
    { kind: 'memory', ...reply.memory },
    { kind: 'task_update', ...reply.task_updates[0] },
    { kind: 'task_send', ...send },
    { kind: 'task_send', ...send, to: 'clerk' },
  ]);
  expect(() => actionOf({ ...reply, reply: null }, steps[0]!)).toThrow('declares no such step');
});

test('the policy knows every state of a held action', () => {
  for (const state of HELD_ACTION_STATES) {
    expect(['wait', 'reply', 'close']).toContain(move({ reply: 'hold' }, [], held({ reply: state })));
  }
});
