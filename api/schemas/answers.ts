// Schemas of the answers about companies, keys, agents and rooms. Tests check every answer against them.

import { z } from 'zod';
import { MODEL_PROTOCOLS } from '../../workflows/policy/model-endpoint';
import { perStepKind } from '../../workflows/policy/steps';
import { ON_CRASH, RIGHTS } from '../../workflows/contract';
import { idPattern } from './fields';
import { shownOnce } from './secrets';
import type { IdPrefix } from '../../prisma/store/db/ids';

/** An id in an answer. */
export function shownId(...prefixes: readonly [IdPrefix, ...IdPrefix[]]) {
  return z.string().regex(idPattern(...prefixes));
}

/** A time by Postgres's clock, in milliseconds. */
export const at = z.iso.datetime({ precision: 3 });

export const count = z.int().min(0);

/** An author, with the name at the time of writing. */
export const author = z
  .object({ kind: z.enum(['person', 'service', 'agent']), id: shownId('key', 'agent'), name: z.string() })
  .meta({ id: 'Author' });

/** A page of a list. `next_cursor` is null on the last page. */
export function pageOf(resource: z.ZodType) {
  return z.object({ data: z.array(resource), next_cursor: z.string().nullable() });
}

export const shownCompany = z
  .object({ id: shownId('co'), slug: z.string(), name: z.string(), created_at: at, suspended_at: at.nullable() })
  .meta({ id: 'Company' });

/** A company as its own keys see it. */
export const ownCompany = z
  .object({ ...shownCompany.shape, tokens_per_day: count.nullable() })
  .meta({ id: 'OwnCompany' });
export const companyOf = z.union([ownCompany, shownCompany]);

const keyShape = {
  id: shownId('key'),
  kind: z.enum(['person', 'service', 'agent']),
  role: z.enum(['admin', 'member']).nullable(),
  agent: shownId('agent').nullable(),
  name: z.string(),
  company: shownId('co'),
  created_at: at,
  expires_at: at.nullable(),
  revoked_at: at.nullable(),
};
export const shownKey = z.object(keyShape).meta({ id: 'Key' });
export const newKey = z
  .object({ ...keyShape, token: shownOnce('The token for the header Authorization: Bearer.') })
  .meta({
    id: 'NewKey',
  });

export const rotatedKey = z.object({ ...newKey.shape, replaces: shownKey }).meta({ id: 'RotatedKey' });

export const newCompany = z.object({ company: shownCompany, admin_key: newKey });

/** The newest test of a model key. */
export const shownKeyTest = z
  .object({
    id: shownId('test'),
    state: z.enum(['pending', 'running', 'ok', 'failed']),
    model: z.string(),
    version: count,
    code: z.string().nullable(),
    http_status: count.nullable(),
    requested_at: at,
    tested_at: at.nullable(),
  })
  .meta({ id: 'ModelKeyTest' });

export const shownModelKey = z
  .object({
    id: shownId('mk'),
    name: z.string(),
    provider: z.string().nullable(),
    protocol: z.enum(MODEL_PROTOCOLS),
    base_url: z.string(),
    owner_supplied: z.boolean(),
    version: count,
    rejected: z.boolean(),
    test: shownKeyTest.nullable(),
    created_at: at,
    revoked_at: at.nullable(),
  })
  .meta({ id: 'ModelKey' });

const agentShape = { id: shownId('agent'), slug: z.string(), name: z.string(), company: shownId('co') };
const publicAgent = z.object(agentShape).meta({ id: 'PublicAgent' });
export const ownAgent = z
  .object({
    ...agentShape,
    always_on: z.boolean(),
    instructions: z.string(),
    model: z.string().nullable(),
    model_key: shownId('mk').nullable(),
    tokens_per_day: count.nullable(),
    tokens_per_run: count,
    created_at: at,
    paused_at: at.nullable(),
  })
  .meta({ id: 'Agent' });
export const shownAgent = z.union([ownAgent, publicAgent]);

export const pausedAgent = z
  .object({
    ...ownAgent.shape,
    in_flight: z.array(z.object({ run: shownId('run'), room: shownId('room'), message: shownId('msg') })),
  })
  .meta({
    id: 'PausedAgent',
    description: '`in_flight`: its runs in all rooms that began before the pause and continue.',
  });

export const shownRoom = z
  .object({
    id: shownId('room'),
    slug: z.string(),
    name: z.string(),
    host: shownId('co'),
    on_crash: z.enum(ON_CRASH),
    hop_limit: count,
    run_allowance: count,
    last_seq: count,
    created_at: at,
    paused_at: at.nullable(),
    closed_at: at.nullable(),
  })
  .meta({ id: 'Room' });

export const newInvitation = z
  .object({
    id: shownId('inv'),
    room: shownId('room'),
    code: shownOnce("The code that the guest's admin redeems."),
    expires_at: at,
  })
  .meta({ id: 'NewInvitation' });

export const shownInvitation = z
  .object({
    id: shownId('inv'),
    room: shownId('room'),
    created_at: at,
    expires_at: at.nullable().meta({ description: 'Null after it was revoked; the audit has the time.' }),
    redeemed_by: shownId('co').nullable(),
    redeemed_at: at.nullable(),
    revoked: z.boolean(),
  })
  .meta({ id: 'Invitation' });

export const shownMember = z
  .object({
    room: shownId('room'),
    company: shownId('co'),
    slug: z.string(),
    name: z.string(),
    role: z.enum(['host', 'guest']),
    joined_at: at,
  })
  .meta({ id: 'Member' });

const right = z.enum(RIGHTS);
export const shownRights = z.object(perStepKind(() => right)).meta({ id: 'Rights' });

const rosterShape = {
  room: shownId('room'),
  agent: shownId('agent'),
  slug: z.string(),
  name: z.string(),
  company: shownId('co'),
  added_at: at,
};
export const publicRosterEntry = z.object(rosterShape).meta({ id: 'PublicRosterEntry' });
export const ownRosterEntry = z
  .object({ ...rosterShape, rights: shownRights, private_memory: z.boolean() })
  .meta({ id: 'RosterEntry' });
export const shownRosterEntry = z.union([ownRosterEntry, publicRosterEntry]);

export const removedFromRoster = z.object({ room: shownId('room'), agent: shownId('agent'), company: shownId('co') });
