// The ending of a run and the final state of every declared step, computed only from records.

import type { StepKind, Right, Rights } from '../../workflows/contract';
import {
  computeEnding,
  type CloseReason,
  type RequestRecord,
  type RunRecords,
  type StepRecord,
} from '../../workflows/policy/ending';
import { nextMove, type HoldRecord } from '../../workflows/policy/next-move';
import { NOTHING_DECLARED, perStepKind, declaredKinds, planSteps, type Step } from '../../workflows/policy/steps';

const ALL_GO: Rights = perStepKind(() => 'go');
const EVERYTHING: StepKind[] = ['reply', 'memory', 'task_update', 'task_update', 'task_send'];
const ENDED: CloseReason = { kind: 'ended' };
const failedAt = (step?: string, code = 'outcome_unknown'): CloseReason => ({
  kind: 'failed',
  code,
  ...(step === undefined ? {} : { step }),
});

const record = (key: string, state: StepRecord['state'] = 'done', code: string | null = null): StepRecord => ({
  key,
  state,
  code,
});

function withReply(
  kinds: readonly StepKind[],
  done: readonly StepRecord[],
  rights: Rights = ALL_GO,
  holds: readonly HoldRecord[] = [],
): RunRecords {
  return { steps: planSteps(kinds), rights, done, holds, requests: [] };
}

/** The steps that act without approval, in order. */
function goingSteps(steps: readonly Step[], rights: Rights): Step[] {
  const takes: Step[] = [];
  for (;;) {
    const done = takes.map((step) => record(step.key));
    const move = nextMove(steps, rights, done, []);
    if (move.kind !== 'act') return takes;
    takes.push(move.step);
  }
}

/** The ending, its code, and the state of every declared step in order. */
function outcome(records: RunRecords, reason: CloseReason): [string, string | null, string] {
  const { ending, code, missing } = computeEnding(records, reason);
  const states = new Map([...records.done, ...missing].map((step) => [step.key, step.state]));
  return [ending, code, (records.steps ?? []).map((step) => `${step.key}=${states.get(step.key)}`).join(' ')];
}

describe('the steps of a reply', () => {
  test('are the declared actions in the order in which they act, with the kind and the position as their key', () => {
    const memory = { category: 'fact', content: 'c', tags: [], visibility: 'shared' } as const;
    const update = { task: 't', state: 'done', result: 'r' } as const;
    const send = { to: 'scout', goal: 'g', acceptance_criteria: [], priority: 'normal', deadline: null } as const;
    const reply = { ...NOTHING_DECLARED, reply: 'text', memory, task_updates: [update, update], tasks_to_send: [send] };
    expect(declaredKinds(reply)).toEqual(EVERYTHING);
    expect(planSteps(EVERYTHING)).toEqual([
      { key: 'reply', kind: 'reply', position: 0, index: 0 },
      { key: 'memory', kind: 'memory', position: 1, index: 0 },
      { key: 'task_update:1', kind: 'task_update', position: 2, index: 0 },
      { key: 'task_update:2', kind: 'task_update', position: 3, index: 1 },
      { key: 'task_send:1', kind: 'task_send', position: 4, index: 0 },
    ]);
    expect(declaredKinds(NOTHING_DECLARED)).toEqual([]);
  });

  test('act only with the right `go`, and none acts if the reply may not be posted', () => {
    const keys = (rights: Partial<Rights>, kinds = EVERYTHING): string[] =>
      goingSteps(planSteps(kinds), { ...ALL_GO, ...rights }).map((step) => step.key);
    expect(keys({})).toEqual(['reply', 'memory', 'task_update:1', 'task_update:2', 'task_send:1']);
    expect(keys({ memory: 'refuse', task_send: 'hold' })).toEqual(['reply', 'task_update:1', 'task_update:2']);
    expect(keys({ reply: 'refuse' })).toEqual([]);
    expect(keys({ reply: 'hold' })).toEqual([]);
    expect(keys({ reply: 'refuse' }, ['memory', 'task_send'])).toEqual(['memory', 'task_send:1']);
  });
});

describe('without a stored reply', () => {
  const request = (number: number, result: string, code: string | null = null): RequestRecord => ({
    number,
    outcome: result,
    code,
  });
  const retry = (number: number, code = 'server_error') => request(number, 'retry', code);

  test.each<[string, RequestRecord[], CloseReason, string, string | null, number?]>([
    ['no request at all', [], ENDED, 'failed', 'no_reply'],
    ['no request, and a bug', [], failedAt(undefined, 'internal'), 'failed', 'internal'],
    ['a refusal', [request(1, 'refused', 'quota')], ENDED, 'refused', 'quota'],
    [
      'a refusal after a failing server',
      [retry(1), request(2, 'refused', 'key_rejected')],
      ENDED,
      'refused',
      'key_rejected',
    ],
    ['a reply that breaks its schema', [request(1, 'failed', 'reply_invalid')], ENDED, 'failed', 'reply_invalid'],
    ['a reply too long', [request(1, 'failed', 'reply_too_long')], ENDED, 'failed', 'reply_too_long'],
    ['a reply cut off', [request(1, 'failed', 'reply_truncated')], ENDED, 'failed', 'reply_truncated'],
    ['an empty reply', [request(1, 'failed', 'reply_empty')], ENDED, 'failed', 'reply_empty'],
    ['a wait over the limit', [request(1, 'busy', 'rate_limit')], ENDED, 'busy', 'rate_limit'],
    ['three failing answers', [retry(1), retry(2), retry(3, 'overloaded')], ENDED, 'busy', 'overloaded'],
    ['three timeouts on our side', [1, 2, 3].map((n) => retry(n, 'timeout')), ENDED, 'busy', 'timeout'],
    ['a last request without an answer', [retry(1), retry(2), request(3, 'in_flight')], ENDED, 'failed', 'unknown'],
    ['three requests without an answer', [1, 2, 3].map((n) => request(n, 'unknown')), ENDED, 'failed', 'unknown'],
    [
      'an unanswered request before a failing last request',
      [request(1, 'unknown'), retry(2), retry(3)],
      ENDED,
      'busy',
      'server_error',
    ],
    [
      'an unanswered request, and a bug',
      [request(1, 'in_flight')],
      failedAt(undefined, 'internal'),
      'failed',
      'internal',
    ],
    ['a failing server, and a bug', [retry(1)], failedAt(undefined, 'internal'), 'failed', 'internal'],
    ['three aborted requests', [1, 2, 3].map((n) => request(n, 'aborted')), ENDED, 'failed', 'interrupted'],
    ['one failing answer with a limit of one request', [retry(1)], ENDED, 'busy', 'server_error', 1],
    ['one unanswered request with a limit of one request', [request(1, 'unknown')], ENDED, 'failed', 'unknown', 1],
    ['records in no order', [retry(3, 'overloaded'), request(1, 'unknown'), retry(2)], ENDED, 'busy', 'overloaded'],
  ])('%s', (...[, requests, reason, ending, code, limit]) => {
    // Rest parameters: jest would take a declared sixth parameter for its `done` callback.
    const records = {
      steps: null,
      rights: null,
      done: [],
      holds: [],
      requests,
      ...(limit && { requestsLimit: limit }),
    };
    expect(computeEnding(records, reason)).toEqual({ ending, code, missing: [] });
  });
});

describe('with a stored reply', () => {
  const done = (...keys: string[]): StepRecord[] => keys.map((key) => record(key));
  const refuse = (...kinds: StepKind[]): Rights => ({
    ...ALL_GO,
    ...Object.fromEntries(kinds.map((kind) => [kind, 'refuse'])),
  });
  const rest = (state: string) => `memory=${state} task_update:1=${state} task_update:2=${state} task_send:1=${state}`;

  test.each<[string, RunRecords, CloseReason, string, string | null, string]>([
    [
      'everything done',
      withReply(EVERYTHING, done('reply', 'memory', 'task_update:1', 'task_update:2', 'task_send:1')),
      ENDED,
      'replied',
      null,
      `reply=done ${rest('done')}`,
    ],
    ['the reply alone', withReply(['reply'], done('reply')), ENDED, 'replied', null, 'reply=done'],
    [
      'later steps refused by rights',
      withReply(EVERYTHING, done('reply', 'memory'), refuse('task_update', 'task_send')),
      ENDED,
      'replied',
      null,
      'reply=done memory=done task_update:1=refused task_update:2=refused task_send:1=refused',
    ],
    [
      'a later step superseded, another refused by its effect',
      withReply(
        ['reply', 'task_update', 'task_send'],
        [
          ...done('reply'),
          record('task_update:1', 'superseded', 'not_found'),
          record('task_send:1', 'refused', 'not_found'),
        ],
      ),
      ENDED,
      'replied',
      null,
      'reply=done task_update:1=superseded task_send:1=refused',
    ],
    [
      'a later step that failed',
      withReply(EVERYTHING, done('reply', 'memory')),
      failedAt('task_update:1'),
      'partial',
      'outcome_unknown',
      'reply=done memory=done task_update:1=failed task_update:2=not_reached task_send:1=not_reached',
    ],
    [
      'a step that failed for its worker but had committed',
      withReply(['reply', 'memory'], done('reply')),
      failedAt('reply'),
      'partial',
      'outcome_unknown',
      'reply=done memory=not_reached',
    ],
    [
      'the reply that failed',
      withReply(EVERYTHING, []),
      failedAt('reply', 'no_answer'),
      'failed',
      'no_answer',
      `reply=failed ${rest('not_reached')}`,
    ],
    [
      'a reply that could not be posted unchanged',
      withReply(EVERYTHING, [record('reply', 'failed', 'reply_invalid')]),
      ENDED,
      'failed',
      'reply_invalid',
      `reply=failed ${rest('superseded')}`,
    ],
    [
      'a bug before the reply',
      withReply(['reply'], []),
      failedAt(undefined, 'internal'),
      'failed',
      'internal',
      'reply=not_reached',
    ],
    [
      'the reply refused by rights',
      withReply(EVERYTHING, [], refuse('reply')),
      ENDED,
      'not_allowed',
      'not_allowed',
      `reply=refused ${rest('superseded')}`,
    ],
    [
      'the reply superseded by its re-check',
      withReply(EVERYTHING, [record('reply', 'superseded', 'right_revoked')]),
      ENDED,
      'not_allowed',
      'right_revoked',
      `reply=superseded ${rest('superseded')}`,
    ],
    ['nothing declared', withReply([], []), ENDED, 'silent', null, ''],
    ['silent, with a memory entry', withReply(['memory'], done('memory')), ENDED, 'silent', null, 'memory=done'],
    [
      'silent, with the declared step refused',
      withReply(['memory', 'task_send'], [], refuse('memory', 'task_send')),
      ENDED,
      'silent',
      null,
      'memory=refused task_send:1=refused',
    ],
    [
      'silent, one step done and the next failed',
      withReply(['memory', 'task_send'], done('memory')),
      failedAt('task_send:1'),
      'partial',
      'outcome_unknown',
      'memory=done task_send:1=failed',
    ],
    [
      'silent, and the first step failed',
      withReply(['memory', 'task_send'], []),
      failedAt('memory'),
      'failed',
      'outcome_unknown',
      'memory=failed task_send:1=not_reached',
    ],
  ])('%s', (_, records, reason, ending, code, states) => {
    expect(outcome(records, reason)).toEqual([ending, code, states]);
  });

  test('an action whose approval was never requested is refused with its own code', () => {
    const { ending, missing } = computeEnding(
      withReply(['reply', 'task_send'], done('reply'), { ...ALL_GO, task_send: 'hold' }),
      ENDED,
    );
    expect(ending).toBe('replied');
    expect(missing).toMatchObject([{ key: 'task_send:1', state: 'refused', code: 'needs_approval' }]);
  });
});

test.each(['lost', 'cancelled', 'timed_out'] as const)('%s wins over every other ending', (kind) => {
  const request = (result: string): RequestRecord => ({ number: 3, outcome: result, code: 'quota' });
  const without = (result: string): RunRecords => ({
    steps: null,
    rights: null,
    done: [],
    holds: [],
    requests: [request(result)],
  });
  const cases = [
    ...['refused', 'failed', 'busy', 'retry', 'unknown', 'in_flight'].map(without),
    withReply([], []),
    withReply(EVERYTHING, []),
    withReply(EVERYTHING, [record('reply'), record('memory', 'failed', 'internal')]),
    withReply(EVERYTHING, [record('reply', 'superseded', 'right_revoked')]),
    withReply(['reply'], [record('reply')]),
    withReply(EVERYTHING, [], { ...ALL_GO, reply: 'refuse' }),
  ];
  for (const records of cases) expect(computeEnding(records, { kind })).toMatchObject({ ending: kind, code: null });
  expect(
    outcome(withReply(['reply', 'memory', 'task_send'], [record('reply')], { ...ALL_GO, memory: 'refuse' }), { kind }),
  ).toEqual([kind, null, 'reply=done memory=refused task_send:1=not_reached']);
});

describe('over every reply, every right and every point of stopping', () => {
  const anyRight: Right[] = ['go', 'hold', 'refuse'];
  const reasons: CloseReason[] = [ENDED, { kind: 'lost' }, { kind: 'cancelled' }, { kind: 'timed_out' }];

  function* everyReply(): Generator<StepKind[]> {
    for (const reply of [[], ['reply']] as StepKind[][])
      for (const memory of [[], ['memory']] as StepKind[][])
        for (const updates of [0, 1, 2])
          for (const sends of [0, 1])
            yield [...reply, ...memory, ...rep('task_update', updates), ...rep('task_send', sends)];
  }
  const rep = (kind: StepKind, count: number): StepKind[] => Array.from({ length: count }, () => kind);

  function* everyRights(): Generator<Rights> {
    for (const reply of anyRight)
      for (const memory of anyRight)
        for (const task_update of anyRight)
          for (const task_send of anyRight) yield { ...ALL_GO, reply, memory, task_update, task_send };
  }

  /** The records of a run that executed its first `count` steps in order, the last of them with the state `last`. */
  function* everyStop(takes: readonly Step[]): Generator<StepRecord[]> {
    for (let count = 0; count <= takes.length; count += 1) {
      const done = takes.slice(0, count).map((step) => record(step.key));
      yield done;
      for (const last of ['superseded', 'refused', 'failed'] as const) {
        if (count > 0) yield [...done.slice(0, -1), record(takes[count - 1]!.key, last, 'met')];
      }
    }
  }

  test('every declared step has exactly one state, and the ending follows from those states', () => {
    let seen = 0;
    const endings = new Set<string>();
    for (const kinds of everyReply()) {
      const steps = planSteps(kinds);
      for (const rights of everyRights()) {
        const takes = goingSteps(steps, rights);
        for (const done of everyStop(takes)) {
          const next = takes.find((step) => !done.some((each) => each.key === step.key));
          for (const reason of [...reasons, failedAt(next?.key)]) {
            seen += 1;
            const { ending, missing } = computeEnding({ steps, rights, done, holds: [], requests: [] }, reason);
            endings.add(ending);
            const states = [...done, ...missing];
            const label = JSON.stringify({ kinds, rights, done, reason, ending, missing });
            if (new Set(states.map((each) => each.key)).size !== steps.length || states.length !== steps.length)
              throw new Error(label);
            if (ending !== endingByRules(states, reason)) throw new Error(label);
          }
        }
      }
    }
    expect(seen).toBeGreaterThan(30_000);
    expect(endings).toEqual(
      new Set(['replied', 'silent', 'partial', 'failed', 'not_allowed', 'lost', 'cancelled', 'timed_out']),
    );
  });

  // A second implementation of the rules of an ending, in their order of precedence.
  function endingByRules(states: readonly StepRecord[], reason: CloseReason): string {
    if (reason.kind !== 'ended' && reason.kind !== 'failed') return reason.kind;
    const reply = states.find((each) => each.key === 'reply')?.state;
    if (reply === 'refused' || reply === 'superseded') return 'not_allowed';
    if (reply === 'failed' || reply === 'not_reached') return 'failed';
    const isShort = states.some((each) => each.state === 'failed' || each.state === 'not_reached');
    if (isShort) return states.some((each) => each.state === 'done') ? 'partial' : 'failed';
    return reply === 'done' ? 'replied' : 'silent';
  }

  test('no step is left exactly after the last step that may act, or after a reply that was not posted', () => {
    for (const kinds of everyReply()) {
      const steps = planSteps(kinds);
      for (const rights of everyRights()) {
        if (kinds.includes('reply') && rights.reply !== 'go') continue; // No step acts: closeRun closes it.
        const takes = goingSteps(steps, rights);
        for (const done of everyStop(takes)) {
          const stopped = done.some((each) => each.key === 'reply' && each.state !== 'done');
          const label = JSON.stringify({ kinds, rights, done });
          const isOver = nextMove(steps, rights, done, []).kind === 'close';
          if (isOver !== (stopped || done.length === takes.length)) throw new Error(label);
        }
      }
    }
  });
});
