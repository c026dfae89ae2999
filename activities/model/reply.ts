// Parses the text of a model's answer into the actions that it declares. Pure. Rights are checked later.

import { z } from 'zod';

import {
  DECLARED_TASKS_LIMIT,
  MEMORY_CATEGORIES,
  MEMORY_VISIBILITIES,
  STEP_KINDS,
  TASK_OUTCOMES,
  TASK_PRIORITIES,
  TEXT_LIMIT,
  type DeclaredReply,
  type ReplyFailureCode,
  type StepKind,
} from '../../workflows/contract';
import { NOTHING_DECLARED } from '../../workflows/policy/steps';
import { parseDeadline } from '../../workflows/policy/rfc3339';
import { cleanText, isBlank, stripReasoning } from './reply-text';
import type { JsonObject } from './wire-format';

/** Tags of a memory line are labels for a search, not text. */
export const TAGS_LIMIT = 20;
export const TAG_LENGTH_LIMIT = 64;
/** Each criterion is a sentence or two to check a result against. */
export const CRITERIA_LIMIT = 20;
export const CRITERION_LENGTH_LIMIT = 2_000;
/** Slugs and ids are far shorter. Models invent ids; the step checks whether an id exists. */
const REFERENCE_LENGTH_LIMIT = 128;

export type ParsedReply = { ok: true; reply: DeclaredReply } | { ok: false; code: ReplyFailureCode };

type Json = Record<string, unknown>;

const text = z.string().max(TEXT_LIMIT);
const someText = text.refine((value) => !isBlank(stripReasoning(value) ?? ''));
const reference = z.string().min(1).max(REFERENCE_LENGTH_LIMIT);

interface ReplyPart<F extends keyof DeclaredReply> {
  readonly field: F;
  /** Every key is required, as strict structured output needs it. */
  readonly schema: z.ZodType<DeclaredReply[F]>;
  /** Values for keys that an entry leaves out. What decides who may see the entry has no default. */
  readonly defaults: Json;
  /** The field in words, for the system prompt. */
  readonly words: string;
}

/** The field of the reply in which each kind of step is declared. */
const PARTS: {
  readonly [K in StepKind]: { [F in keyof DeclaredReply]: ReplyPart<F> }[keyof DeclaredReply];
} = {
  reply: {
    field: 'reply',
    schema: text.nullable().describe('What to post in the room, or null to say nothing.'),
    defaults: {},
    words: `the text to post in the room (at most ${TEXT_LIMIT} characters), or null to say nothing.`,
  },
  memory: {
    field: 'memory',
    schema: z
      .strictObject({
        category: z.enum(MEMORY_CATEGORIES),
        content: someText,
        tags: z.array(z.string().min(1).max(TAG_LENGTH_LIMIT)).max(TAGS_LIMIT),
        visibility: z.enum(MEMORY_VISIBILITIES),
      })
      .nullable()
      .describe('One line to remember, or null.'),
    defaults: { tags: [] },
    words: `null, or one line to remember: {"category": ${quoted(MEMORY_CATEGORIES)}, "content": text, "tags": at most ${TAGS_LIMIT} short words, "visibility": ${quoted(MEMORY_VISIBILITIES)}}. Shared lines are seen by every company in the room.`,
  },
  task_update: {
    field: 'task_updates',
    schema: z
      .array(
        z.strictObject({
          task: reference.describe('The id of an open task sent to you.'),
          state: z.enum(TASK_OUTCOMES),
          result: text,
        }),
      )
      .describe('Open tasks sent to you that are now finished.'),
    defaults: {},
    words: `a list, empty when no task is finished: {"task": the id of an open task sent to you, "state": ${quoted(TASK_OUTCOMES)}, "result": text}.`,
  },
  task_send: {
    field: 'tasks_to_send',
    schema: z
      .array(
        z.strictObject({
          to: reference.describe('The slug of an agent on the roster.'),
          goal: someText,
          acceptance_criteria: z.array(z.string().min(1).max(CRITERION_LENGTH_LIMIT)).max(CRITERIA_LIMIT),
          priority: z.enum(TASK_PRIORITIES),
          deadline: z
            .string()
            .transform((given, context) => {
              const kept = parseDeadline(given);
              if (kept !== null) return kept;
              context.addIssue({ code: 'custom', message: 'an RFC 3339 time or date' });
              return z.NEVER;
            })
            .nullable()
            .describe('An RFC 3339 time such as 2026-08-08T17:00:00Z, a date such as 2026-08-08, or null.'),
        }),
      )
      .describe('Tasks for other agents.'),
    defaults: { acceptance_criteria: [], priority: 'normal', deadline: null },
    words: `a list, empty when there is nothing to send: {"to": the slug of an agent on the roster, "goal": text, "acceptance_criteria": at most ${CRITERIA_LIMIT} sentences, "priority": ${quoted(TASK_PRIORITIES)}, "deadline": an RFC 3339 time, a date such as 2026-08-08, or null}.`,
  },
};

const ORDERED_PARTS = STEP_KINDS.map((kind) => PARTS[kind]);

const replySchema = z.strictObject(Object.fromEntries(ORDERED_PARTS.map(({ field, schema }) => [field, schema])));

/** Sizes are checked here and left out of the schema: strict structured output refuses a schema with such limits. */
const UNSENT_KEYWORDS = new Set(['$schema', 'minLength', 'maxLength', 'minItems', 'maxItems']);

/** The JSON schema of a reply, which requests contain. */
export const REPLY_JSON_SCHEMA = withoutLimits(z.toJSONSchema(replySchema, { io: 'input' })) as JsonObject;

function withoutLimits(schema: object): unknown {
  return JSON.parse(JSON.stringify(schema, (key, value: unknown) => (UNSENT_KEYWORDS.has(key) ? undefined : value)));
}

/** The format in words, for the system prompt, because servers may ignore the schema. */
export const REPLY_FORMAT = `Answer with one JSON object and nothing else. Its keys, all of them every time:
${ORDERED_PARTS.map(({ field, words }) => `- "${field}": ${words}`).join('\n')}
At most ${DECLARED_TASKS_LIMIT} tasks in both lists together. Use only ids and slugs that you were shown, and add no other keys.`;

function quoted(words: readonly string[]): string {
  return words.map((word) => `"${word}"`).join(' | ');
}

/**
 * The actions that this text declares, or the reason why it is not usable. A JSON object with one of the four keys,
 * alone or in one fence, must match the schema. Any other text is the reply itself and declares nothing else.
 */
export function parseReply(answer: string): ParsedReply {
  const visible = stripReasoning(cleanText(answer))?.trim();
  if (visible === undefined || isBlank(visible)) return failed('reply_empty');
  const declared = findDeclared(visible);
  if (declared !== null) return parseDeclared(declared);
  if (visible.length > TEXT_LIMIT) return failed('reply_too_long');
  return { ok: true, reply: { ...NOTHING_DECLARED, reply: visible } };
}

function findDeclared(visible: string): Json | null {
  let json: unknown;
  try {
    json = JSON.parse(unfence(visible));
  } catch {
    return null;
  }
  return isObject(json) && Object.keys(NOTHING_DECLARED).some((key) => Object.hasOwn(json, key)) ? json : null;
}

/** The content of a fence around the whole text, or the text itself. `JSON.parse` then refuses anything else. */
function unfence(visible: string): string {
  const opened = /^(`{3,}|~{3,})[ \t]*[\w-]*/.exec(visible);
  if (opened === null) return visible;
  const inside = visible.slice(opened[0].length);
  const fence = opened[1] ?? '';
  return inside.endsWith(fence) ? inside.slice(0, -fence.length) : inside;
}

function parseDeclared(json: Json): ParsedReply {
  if (typeof json.reply === 'string') {
    if (stripReasoning(json.reply) === null) return failed('reply_empty');
    if (json.reply.length > TEXT_LIMIT) return failed('reply_too_long');
  }
  const parsed = replySchema.safeParse(fillIn(json));
  if (!parsed.success) return failed('reply_invalid');
  const declared = cleanStrings(parsed.data as unknown as DeclaredReply);
  if (declared.task_updates.length + declared.tasks_to_send.length > DECLARED_TASKS_LIMIT) {
    return failed('reply_invalid');
  }
  const isSilent = declared.reply === null || isBlank(declared.reply);
  return { ok: true, reply: { ...declared, reply: isSilent ? null : declared.reply } };
}

/** Sets missing keys and nulls whose meaning is "none". The visibility of a memory line has no default. */
function fillIn(json: Json): Json {
  const filled = withDefaults(json, { ...NOTHING_DECLARED });
  for (const { field, defaults } of ORDERED_PARTS) filled[field] = fillInEntries(filled[field], defaults);
  return filled;
}

function fillInEntries(value: unknown, defaults: Json): unknown {
  const fillInEntry = (entry: unknown): unknown => (isObject(entry) ? withDefaults(entry, defaults) : entry);
  return Array.isArray(value) ? value.map(fillInEntry) : fillInEntry(value);
}

function withDefaults(json: Json, defaults: Json): Json {
  const filled: Json = { ...json };
  for (const [key, value] of Object.entries(defaults)) filled[key] = filled[key] ?? value;
  return filled;
}

/**
 * Removes reasoning, NUL and unpaired surrogates from every string: JSON escapes can restore them after `cleanText`.
 */
function cleanStrings<T>(value: T): T {
  if (typeof value === 'string') return cleanText(stripReasoning(value) ?? '') as T;
  if (Array.isArray(value)) return value.map(cleanStrings) as T;
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, cleanStrings(inner)])) as T;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function failed(code: ReplyFailureCode): ParsedReply {
  return { ok: false, code };
}
