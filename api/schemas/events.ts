// Schemas of the events that a caller may write to a room, by `type`.

import { z } from 'zod';
import { MEMORY_CATEGORIES, MEMORY_VISIBILITIES, TASK_OUTCOMES, TASK_PRIORITIES } from '../../workflows/contract';
import { deadline, idOf, oneOf, optionalText, slug, text } from './fields';

/** More than a message may wake: it may also mention agents that read with their own key and are not woken. */
const MENTIONS_LIMIT = 100;
/** The limits of criteria and tags are the same for a model's reply. */
const CRITERIA_LIMIT = 20;
const CRITERION_LENGTH_LIMIT = 2_000;
const TAGS_LIMIT = 20;
const TAG_LENGTH_LIMIT = 64;
const MEMORY_REFS_LIMIT = 100;
const ATTACHMENTS_LIMIT = 20;

function listOf<T extends z.ZodType>(item: T, max: number) {
  return z.array(item, 'a list').max(max, `at most ${max} entries`).default([]);
}

function shortText(max: number) {
  const expected = `text of 1 to ${max} characters`;
  return z.string(expected).min(1, expected).max(max, expected);
}

/** The slug of an agent in any letter case. */
const addressee = z
  .string('text')
  .transform((given) => given.normalize('NFC').toLowerCase())
  .pipe(slug);

const message = z.strictObject({
  type: z.literal('message'),
  text,
  mentions: listOf(addressee, MENTIONS_LIMIT),
});

const task = z.strictObject({
  type: z.literal('task'),
  to: addressee,
  goal: text,
  acceptance_criteria: listOf(shortText(CRITERION_LENGTH_LIMIT), CRITERIA_LIMIT),
  priority: oneOf(TASK_PRIORITIES).default('normal'),
  deadline: deadline.nullable().default(null),
  memory_refs: listOf(idOf('mem'), MEMORY_REFS_LIMIT),
  attachments: listOf(idOf('file'), ATTACHMENTS_LIMIT),
});

const taskResponse = z.strictObject({
  type: z.literal('task_response'),
  task: idOf('task'),
  state: oneOf(TASK_OUTCOMES),
  result: text,
});

const taskVerdict = z.strictObject({
  type: z.literal('task_verdict'),
  task: idOf('task'),
  verdict: oneOf(['accepted', 'rejected']),
  note: optionalText().nullable().default(null),
});

const memory = z.strictObject({
  type: z.literal('memory'),
  category: oneOf(MEMORY_CATEGORIES),
  content: text,
  tags: listOf(shortText(TAG_LENGTH_LIMIT), TAGS_LIMIT),
  visibility: oneOf(MEMORY_VISIBILITIES).default('shared'),
});

const memoryDeprecation = z.strictObject({
  type: z.literal('memory_deprecation'),
  entry: idOf('mem'),
});

const eventBody = z.discriminatedUnion(
  'type',
  [message, task, taskResponse, taskVerdict, memory, memoryDeprecation],
  'one of message, task, task_response, task_verdict, memory, memory_deprecation',
);

export type EventBody = z.output<typeof eventBody>;

/** 100 events: one statement appends them without holding the room's lock for long. */
const BATCH_LIMIT = 100;
const batchSize = `1 to ${BATCH_LIMIT} events`;

/** One event, or a batch of them. */
export const eventsBody = z.union([
  eventBody,
  z.array(eventBody, batchSize).min(1, batchSize).max(BATCH_LIMIT, batchSize),
]);

/** The schema of each event that an MCP tool writes. */
export { memory as memoryEvent, message as messageEvent, task as taskEvent, taskResponse as taskResponseEvent };
