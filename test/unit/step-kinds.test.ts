// Every list of step kinds equals the list in the contract.

import { createStepActivities } from '../../activities/step';
import { parseReply, REPLY_FORMAT, REPLY_JSON_SCHEMA } from '../../activities/model/reply';
import { ownRosterEntry, shownRights } from '../../api/schemas/answers';
import { rosterBody, rosterPatch } from '../../api/schemas/bodies';
import { PRESETS } from '../../prisma/store/rooms/roster';
import { STEP_KINDS } from '../../workflows/contract';
import {
  actionOf,
  declaredKinds,
  NOTHING_DECLARED,
  perStepKind,
  planSteps,
  STEP_RULES,
} from '../../workflows/policy/steps';
import { DECLARED_BY_KIND } from '../support/step-kinds';

const ALL_DECLARED = Object.assign({ ...NOTHING_DECLARED }, ...Object.values(DECLARED_BY_KIND));

test('the policy has a rule for each kind, in order, and each kind has its own activity', () => {
  expect(Object.keys(STEP_RULES)).toEqual(STEP_KINDS);
  const names = STEP_KINDS.map((kind) => STEP_RULES[kind].activity);
  expect(new Set(names).size).toBe(STEP_KINDS.length);
  expect(Object.keys(createStepActivities({ db: undefined as never }))).toEqual(names);
});

test.each(STEP_KINDS)('%s: a reply declares it in its own field, and its step has the action', (kind) => {
  expect(Object.keys(DECLARED_BY_KIND[kind])).toHaveLength(1);
  const reply = { ...NOTHING_DECLARED, ...DECLARED_BY_KIND[kind] };
  expect(declaredKinds(reply)).toEqual([kind]);
  const [step] = planSteps([kind]);
  expect(step).toMatchObject({ kind, key: STEP_RULES[kind].count === 'one' ? kind : `${kind}:1` });
  expect(actionOf(reply, step!)).toMatchObject({ kind });
});

test('a reply declares the kinds in the order of the contract, and no field belongs to no kind', () => {
  expect(declaredKinds(ALL_DECLARED)).toEqual(STEP_KINDS);
  const fields = STEP_KINDS.flatMap((kind) => Object.keys(DECLARED_BY_KIND[kind]));
  expect(fields).toEqual(Object.keys(NOTHING_DECLARED));
  expect(Object.keys(REPLY_JSON_SCHEMA['properties'] as object)).toEqual(fields);
  for (const field of fields) expect(REPLY_FORMAT).toContain(`- "${field}": `);
  expect(parseReply(JSON.stringify(ALL_DECLARED))).toEqual({ ok: true, reply: ALL_DECLARED });
});

test('rights have each kind: the presets and the API', () => {
  for (const preset of Object.values(PRESETS)) expect(Object.keys(preset)).toEqual(STEP_KINDS);
  expect(PRESETS.careful).toEqual({ ...PRESETS.autonomous, task_send: 'hold' });
  expect(Object.keys(shownRights.shape)).toEqual(STEP_KINDS);
  expect(ownRosterEntry.shape.rights).toBe(shownRights);
  const agent = `agent_${'0'.repeat(26)}`;
  const rights = perStepKind(() => 'hold');
  expect(rosterBody.safeParse({ agent, rights })).toMatchObject({ success: true, data: { rights } });
  for (const kind of STEP_KINDS) {
    const { [kind]: _, ...others } = rights;
    expect(rosterBody.safeParse({ agent, rights: others }).success).toBe(false);
    const change = { rights: { [kind]: 'refuse' } };
    expect(rosterPatch.safeParse(change)).toMatchObject({ success: true, data: change });
  }
});
