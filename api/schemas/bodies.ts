// Schemas of the request bodies about companies, keys, agents and rooms.

import { z } from 'zod';
import { MODEL_PROTOCOLS } from '../../workflows/policy/model-endpoint';
import { perStepKind } from '../../workflows/policy/steps';
import { TOKENS_PER_DAY_MAX, TOKENS_PER_RUN_DEFAULT, TOKENS_PER_RUN_MAX } from '../../prisma/store/eligibility/budgets';
import { HOP_LIMIT_MAX, RUN_ALLOWANCE_MAX } from '../../prisma/store/rooms/rooms';
import { ON_CRASH, RIGHTS } from '../../workflows/contract';
import { CHANGES_SOMETHING, changesSomething, flag, idOf, label, name, oneOf, optionalText, slug } from './fields';

function wholeNumber(min: number, max: number) {
  const expected = `a whole number from ${min} to ${max}`;
  return z.int(expected).min(min, expected).max(max, expected);
}

const tokensPerDay = wholeNumber(0, TOKENS_PER_DAY_MAX).nullable();
const tokensPerRun = wholeNumber(1, TOKENS_PER_RUN_MAX);

export const companyBody = z.strictObject({ slug: slug.optional(), name });

/** The fields that a company's admin may change. */
export const companyPatch = z.strictObject({ tokens_per_day: tokensPerDay });

export const keyBody = z.discriminatedUnion(
  'kind',
  [
    z.strictObject({ kind: z.literal('person'), role: oneOf(['admin', 'member']), name: label }),
    z.strictObject({ kind: z.literal('service'), name: label }),
    z.strictObject({ kind: z.literal('agent'), agent: idOf('agent'), name: label }),
  ],
  'one of person, service, agent',
);

/** At most 7 days in which the old key stays valid, so that its users can change to the new one. */
const OVERLAP_MAX_SECONDS = 7 * 24 * 60 * 60;
export const keyRotationBody = z
  .strictObject({ overlap_seconds: wholeNumber(0, OVERLAP_MAX_SECONDS).default(0) })
  .default({ overlap_seconds: 0 });

/** `workflows/policy/model-endpoint.ts` checks the secret and the address. Its messages repeat no input. */
export const modelKeyBody = z
  .strictObject({
    name: label,
    key: z.string('text'),
    provider: z.string('text').optional(),
    base_url: z.string('text').optional(),
    protocol: oneOf(MODEL_PROTOCOLS).optional(),
  })
  .refine(
    (body) => (body.provider === undefined) !== (body.base_url === undefined),
    'either provider or base_url, and not both',
  )
  .refine((body) => body.protocol === undefined || body.base_url !== undefined, {
    error: 'no protocol with a provider; it is only for a base_url',
    path: ['protocol'],
  })
  .meta({ oneOf: [{ required: ['provider'] }, { required: ['base_url'] }] });

export const modelKeyPatch = z
  .strictObject({ name: label.optional(), key: z.string('text').optional() })
  .refine(changesSomething, CHANGES_SOMETHING)
  .meta({ minProperties: 1 });

const MODEL_LIMIT = 200;
const model = z
  .string('text')
  .refine(
    (text) => text.trim() === text && /^[^\p{Cc}]+$/u.test(text) && text.length <= MODEL_LIMIT,
    `a model name of 1 to ${MODEL_LIMIT} characters`,
  )
  .meta({ minLength: 1, maxLength: MODEL_LIMIT });

/** Without a body, the test uses the model of an agent that uses the key. */
export const modelKeyTestBody = z.strictObject({ model: model.optional() }).optional();

export const agentBody = z.strictObject({
  slug: slug.optional(),
  name,
  always_on: flag.default(true),
  instructions: optionalText().default(''),
  model: model.nullable().default(null),
  model_key: idOf('mk').nullable().default(null),
  tokens_per_day: tokensPerDay.default(null),
  tokens_per_run: tokensPerRun.default(TOKENS_PER_RUN_DEFAULT),
});

export const agentPatch = z
  .strictObject({
    name: name.optional(),
    always_on: flag.optional(),
    instructions: optionalText().optional(),
    model: model.nullable().optional(),
    model_key: idOf('mk').nullable().optional(),
    tokens_per_day: tokensPerDay.optional(),
    tokens_per_run: tokensPerRun.optional(),
  })
  .refine(changesSomething, CHANGES_SOMETHING)
  .meta({ minProperties: 1 });

const onCrash = oneOf(ON_CRASH);
const hopLimit = wholeNumber(0, HOP_LIMIT_MAX);
const runAllowance = wholeNumber(0, RUN_ALLOWANCE_MAX);

export const roomBody = z.strictObject({
  slug: slug.optional(),
  name,
  on_crash: onCrash.default('stop'),
  hop_limit: hopLimit.default(8),
  run_allowance: runAllowance.default(1_000),
});

export const roomPatch = z
  .strictObject({
    name: name.optional(),
    on_crash: onCrash.optional(),
    hop_limit: hopLimit.optional(),
    run_allowance: runAllowance.optional(),
  })
  .refine(changesSomething, CHANGES_SOMETHING)
  .meta({ minProperties: 1 });

const CODE_LIMIT = 200;
/** The format of a code is not checked: a malformed code is not found, like an unknown one. */
export const redemptionBody = z.strictObject({ code: z.string('text').max(CODE_LIMIT, 'an invitation code') });

const preset = oneOf(['supervised', 'careful', 'autonomous']);
const right = oneOf(RIGHTS);
const NOT_BOTH = 'preset or rights, and not both';

export const rosterBody = z
  .strictObject({
    agent: idOf('agent'),
    preset: preset.optional(),
    rights: z
      .strictObject(
        perStepKind(() => right),
        'an object',
      )
      .optional(),
  })
  .refine((body) => body.preset === undefined || body.rights === undefined, NOT_BOTH);

export const rosterPatch = z
  .strictObject({
    preset: preset.optional(),
    rights: z
      .strictObject(
        perStepKind(() => right.optional()),
        'an object',
      )
      .optional(),
    private_memory: flag.optional(),
  })
  .refine(changesSomething, CHANGES_SOMETHING)
  .refine((body) => body.preset === undefined || body.rights === undefined, NOT_BOTH)
  .meta({ minProperties: 1 });

/** The subject to erase: a message, task, memory entry or file of the caller's company. */
export const redactionBody = z.strictObject({
  subject: z.union(
    [idOf('msg'), idOf('task'), idOf('mem'), idOf('file')],
    'the id of a message, a task, a memory entry or a file',
  ),
});
