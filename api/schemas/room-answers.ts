// Schemas of the answers about a room's content and about wakes and runs. Some have two forms: the whole resource for
// its own company, and the public fields for other companies.

import { z } from 'zod';
import type { RoomEventType } from '../../prisma/store/rooms/room-event-types';
import {
  STEP_KINDS,
  DECISIONS,
  ENDINGS,
  HELD_ACTION_STATES,
  MEMORY_CATEGORIES,
  MEMORY_VISIBILITIES,
  ON_CRASH,
  STEP_STATES,
  SUPPRESSED_REASONS,
  TASK_OUTCOMES,
  TASK_PRIORITIES,
  WAKE_STATES,
} from '../../workflows/contract';
import { shownFile } from './file-answers';
import { runUsage, tokens } from './usage-answers';
import { at, author, count, publicRosterEntry, shownId, shownMember, shownRights, shownRoom } from './answers';

export const shownMessage = z
  .object({
    id: shownId('msg'),
    room: shownId('room'),
    kind: z.enum(['text', 'task_card', 'response_card']),
    company: shownId('co'),
    author,
    text: z.string(),
    mentions: z.array(shownId('agent')),
    hop: count,
    task: shownId('task').nullable(),
    run: shownId('run').nullable(),
    refers_to: shownId('msg').nullable(),
    created_at: at,
    redacted_at: at.nullable(),
  })
  .meta({ id: 'Message' });

export const shownTask = z
  .object({
    id: shownId('task'),
    room: shownId('room'),
    card: shownId('msg'),
    sender: z.object({ ...author.shape, company: shownId('co') }),
    recipient: shownId('agent'),
    goal: z.string(),
    acceptance_criteria: z.array(z.string()),
    priority: z.enum(TASK_PRIORITIES),
    deadline: z.string().nullable(),
    memory_refs: z.array(shownId('mem')),
    attachments: z.array(z.string()),
    state: z.enum(['pending', 'in_progress', ...TASK_OUTCOMES]),
    result: z.string().nullable(),
    response: shownId('msg').nullable(),
    responded_at: at.nullable(),
    verdict: z.enum(['accepted', 'rejected']).nullable(),
    verdict_note: z.string().nullable(),
    verdict_at: at.nullable(),
    run: shownId('run').nullable(),
    created_at: at,
    redacted_at: at.nullable(),
  })
  .meta({ id: 'Task' });

export const shownInbox = z
  .object({
    tasks: z
      .array(shownTask)
      .meta({ description: 'The open tasks of the agent, oldest first. All are now in progress.' }),
    more_tasks: z
      .boolean()
      .meta({ description: 'True when the agent has more open tasks; they appear after some of these are answered.' }),
    messages: z.array(shownMessage).meta({ description: 'The messages after the cursor that address the agent.' }),
    next_cursor: z.string().meta({ description: 'Never null. When there is nothing new, read again from it later.' }),
  })
  .meta({ id: 'Inbox' });

const readableEntry = z
  .object({
    id: shownId('mem'),
    room: shownId('room'),
    company: shownId('co'),
    author,
    category: z.enum(MEMORY_CATEGORIES),
    tags: z.array(z.string()),
    content: z.string(),
    visibility: z.enum(MEMORY_VISIBILITIES),
    run: shownId('run').nullable(),
    created_at: at,
    deprecated_at: at.nullable(),
    redacted_at: at.nullable(),
  })
  .meta({ id: 'MemoryEntry' });
const hiddenEntry = z
  .object({
    id: shownId('mem'),
    room: shownId('room'),
    company: shownId('co'),
    visibility: z.literal('private'),
    created_at: at,
  })
  .meta({ id: 'HiddenMemoryEntry' });
export const shownEntry = z.union([readableEntry, hiddenEntry]);

/** The reason of a suppressed wake. Other companies see `unavailable` for a private reason. */
const shownReason = z.enum([...SUPPRESSED_REASONS, 'unavailable']);

const wakeShape = {
  id: shownId('wake'),
  room: shownId('room'),
  company: shownId('co'),
  agent: shownId('agent'),
  message: shownId('msg'),
  state: z.enum(WAKE_STATES),
  reason: shownReason.nullable(),
  run: shownId('run').nullable(),
};
export const shownWake = z.union([
  z
    .object({
      ...wakeShape,
      task: shownId('task').nullable(),
      hop: count,
      created_at: at,
      delivered_at: at.nullable(),
      started_at: at.nullable(),
      claimed_at: at.nullable(),
    })
    .meta({ id: 'Wake' }),
  z.object(wakeShape).meta({ id: 'PublicWake' }),
]);

const runShape = {
  id: shownId('run'),
  room: shownId('room'),
  company: shownId('co'),
  agent: shownId('agent'),
  message: shownId('msg'),
  state: z.enum(['open', 'closed']),
  ending: z.enum(ENDINGS).nullable(),
  posted: shownId('msg').nullable(),
};
const publicRun = z.object(runShape).meta({ id: 'PublicRun' });
const listedRunShape = {
  ...runShape,
  wake: shownId('wake'),
  code: z.string().nullable(),
  on_crash: z.enum(ON_CRASH),
  hop: count,
  time_limit_ms: count,
  claimed_at: at,
  closed_at: at.nullable(),
  model: z.string().nullable(),
  model_key: shownId('mk').nullable(),
  model_key_version: count.nullable(),
  reply_sha256: z.string().nullable(),
  rights: shownRights.nullable(),
  retry_at: at.nullable(),
  cancelled: z.object({ by: z.string(), why: z.string() }).nullable(),
  fenced_count: count,
  parked_at: at.nullable(),
  parked_ms: count,
  held_actions: z.array(z.object({ id: shownId('held'), step: z.string(), state: z.enum(HELD_ACTION_STATES) })),
  temporal: z.object({ workflow_id: z.string(), run_id: z.string().nullable() }),
  steps: z.array(
    z.object({
      key: z.string(),
      kind: z.enum(STEP_KINDS),
      position: count,
      state: z.enum(STEP_STATES),
      code: z.string().nullable(),
      effect: z.string().nullable(),
      at,
    }),
  ),
  requests: z.array(
    z.object({
      number: count,
      outcome: z.string(),
      code: z.string().nullable(),
      http_status: count.nullable(),
      provider_code: z.string().nullable(),
      input_tokens: tokens.nullable(),
      output_tokens: tokens.nullable(),
      named_wait_ms: z.int().nullable(),
      claimed_at: at,
      ended_at: at.nullable(),
    }),
  ),
  usage: runUsage,
};
export const listedRun = z.union([z.object(listedRunShape).meta({ id: 'ListedRun' }), publicRun]);
export const shownRun = z.union([
  z
    .object({ ...listedRunShape, manifest: z.record(z.string(), z.unknown()).nullable() })
    .meta({ id: 'Run', description: '`manifest` lists what the model was shown: ids, hashes and what was cut.' }),
  publicRun,
]);

const DATA: Readonly<Record<RoomEventType, z.ZodType>> = {
  message: shownMessage,
  task: shownTask,
  task_response: shownTask,
  task_verdict: shownTask,
  task_started: shownTask,
  memory: shownEntry,
  memory_deprecation: shownEntry,
  member_joined: shownMember,
  member_left: z.object({ room: shownId('room'), company: shownId('co') }),
  agent_added: publicRosterEntry,
  agent_removed: publicRosterEntry.omit({ added_at: true }),
  file_added: shownFile,
  wake_suppressed: z.object({
    wake: shownId('wake'),
    agent: shownId('agent'),
    message: shownId('msg'),
    reason: shownReason,
  }),
  run_ended: z.object({
    run: shownId('run'),
    agent: shownId('agent'),
    message: shownId('msg'),
    ending: z.enum(ENDINGS),
    posted: shownId('msg').nullable(),
  }),
  room_paused: z.object({ room: shownId('room') }),
  room_resumed: z.object({ room: shownId('room') }),
  room_closed: z.object({ room: shownId('room') }),
  redacted: z.object({ subject: z.string(), kind: z.enum(['message', 'task', 'response', 'memory', 'file']) }),
};

const eventShape = {
  id: shownId('evt'),
  seq: z.int().min(1),
  at,
  company: shownId('co').nullable(),
  author: author.nullable(),
};
const eventOf = (type: string, data: z.ZodType) => z.object({ ...eventShape, type: z.literal(type), data });
type EventSchema = ReturnType<typeof eventOf>;

/** An event of a room. */
export const shownEvent = z
  .discriminatedUnion(
    'type',
    Object.entries(DATA).map(([type, data]) => eventOf(type, data)) as unknown as [EventSchema, ...EventSchema[]],
  )
  .meta({
    id: 'Event',
    description: '`data` holds the whole resource. Clients must skip types that they do not know.',
  });

/** A held action, as its company sees it. */
export const shownHeldAction = z
  .object({
    id: shownId('held'),
    room: shownId('room'),
    agent: shownId('agent'),
    run: shownId('run'),
    message: shownId('msg'),
    step: z.string(),
    kind: z.enum(STEP_KINDS),
    state: z.enum(HELD_ACTION_STATES),
    action: z
      .object({ kind: z.enum(STEP_KINDS) })
      .catchall(z.unknown())
      .nullable(),
    hash: z.string(),
    opened_at: at,
    expires_at: at,
    changed_at: at,
    decision: z.enum(DECISIONS).nullable(),
    decided_by: z.object({ id: shownId('key'), name: z.string() }).nullable(),
    decided_at: at.nullable(),
    run_state: z.enum(['open', 'closed']),
    run_ending: z.enum(ENDINGS).nullable(),
  })
  .meta({ id: 'HeldAction', description: 'A decision must repeat `hash`. `action` is null after it was redacted.' });

/** An event of a company's feed, with its room. Changes of held actions are only in the feed of their company. */
export const shownFeedEvent = z
  .discriminatedUnion('type', [
    ...Object.entries(DATA).map(([type, data]) => eventOf(type, data).extend({ room: shownId('room') })),
    eventOf('held_action', shownHeldAction).extend({ room: shownId('room'), company: shownId('co'), author: z.null() }),
  ] as unknown as [EventSchema, ...EventSchema[]])
  .meta({
    id: 'FeedEvent',
    description:
      'A `held_action` event reports each change of state of a held action and shows its state at that time. `run_state`, `run_ending` and a redacted `action` are current. Its `seq` counts such events of the company.',
  });

export const pausedRoom = z
  .object({
    ...shownRoom.shape,
    in_flight: z.array(z.object({ run: shownId('run'), agent: shownId('agent'), message: shownId('msg') })),
  })
  .meta({ id: 'PausedRoom', description: '`in_flight`: the runs that began before the pause and continue.' });

export const postedEvent = z
  .object({
    seq: z.int().min(1),
    event: shownId('evt'),
    id: z.string(),
    wakes: z.array(
      z.object({
        wake: shownId('wake'),
        agent: shownId('agent'),
        slug: z.string(),
        status: z.enum(['pending', 'suppressed']),
        reason: shownReason.nullable(),
      }),
    ),
  })
  .meta({
    id: 'PostedEvent',
    description: '`id` is the id of the message, task or memory entry that the event is about.',
  });
export const askedAgain = z.object({ ...postedEvent.shape, refers_to: shownId('msg') }).meta({ id: 'AskedAgain' });
export const postedEvents = z.union([postedEvent, z.array(postedEvent)]);
