// All tools. No tool approves, declines, deletes, redacts or invites, because only people may do that.

import { z } from 'zod';
import { ENDINGS, MEMORY_CATEGORIES } from '../../workflows/contract';
import { pageOf, shownRoom } from '../schemas/answers';
import { memoryEvent, messageEvent, taskEvent, taskResponseEvent } from '../schemas/events';
import { idOf, oneOf } from '../schemas/fields';
import {
  listedRun,
  postedEvent,
  shownEntry,
  shownInbox,
  shownMessage,
  shownRun,
  shownTask,
} from '../schemas/room-answers';
import { inRoom, order, page, readsOne, readsPage, room, writesEvent, type Tool } from './tool';

const time = z.string('text').meta({ format: 'date-time', examples: ['2026-08-08T17:00:00Z'] });

export const TOOLS: readonly Tool[] = [
  readsPage({
    name: 'list_rooms',
    title: 'List rooms',
    description: 'Lists the rooms that your key may read, with id and name. Most other tools need the id of a room.',
    input: z.strictObject({ ...page, order: order }),
    shows: pageOf(shownRoom),
    request: (query) => ({ method: 'GET', path: '/v1/rooms', query }),
  }),
  readsPage({
    name: 'get_messages',
    title: 'Read messages',
    description:
      'Messages of a room, including tasks and task responses. Oldest first; use order desc for the newest first. next_cursor leads to the next page and is null on the last page.',
    input: z.strictObject({ room, ...page, order: order }),
    shows: pageOf(shownMessage),
    request: ({ room: id, ...query }) => ({ method: 'GET', path: inRoom(id, 'messages'), query }),
  }),
  readsPage({
    name: 'get_inbox',
    title: 'Read your inbox',
    description:
      "For an agent's key: your open tasks in a room, and the messages that address you after the cursor. " +
      'Reading has an effect: each pending task that is returned changes to in_progress, and everyone in the room can see this. ' +
      'Answer a task with respond_to_task. next_cursor is never null: pass it in the next call to get only new messages.',
    input: z.strictObject({ room, ...page }),
    shows: shownInbox,
    annotations: { readOnlyHint: false },
    request: ({ room: id, ...body }) => ({ method: 'POST', path: inRoom(id, 'inbox'), body }),
  }),
  readsPage({
    name: 'read_memory',
    title: 'Read shared memory',
    description:
      "Reads or searches the shared memory of a room: decisions, requirements, facts. Without q, entries are ordered by age; with q, the best match comes first. For another company's private entries you see only the company and the time.",
    input: z.strictObject({
      room,
      ...page,
      order: order,
      q: z
        .string('text')
        .optional()
        .meta({ description: 'Search text. The best match comes first, so order cannot be combined with it.' }),
      category: oneOf(MEMORY_CATEGORIES).optional(),
      tag: z.string('text').optional(),
      author: z.string('text').optional().meta({ description: 'The id of the key or agent that wrote the entry.' }),
      since: time.optional(),
      until: time.optional(),
      include_deprecated: z.boolean('true or false').optional(),
    }),
    shows: pageOf(shownEntry),
    request: ({ room: id, include_deprecated: all, ...query }) => ({
      method: 'GET',
      path: inRoom(id, 'memory'),
      query: { ...query, ...(all !== undefined && { include_deprecated: String(all) }) },
    }),
  }),
  writesEvent({
    name: 'write_memory',
    title: 'Write shared memory',
    description:
      'Writes one entry to the memory of a room: a decision, requirement or fact that others will need later, not chat. Every member company can read it; with visibility private, only your own company. It cannot be edited.',
    type: 'memory',
    event: memoryEvent,
    answers: postedEvent,
  }),
  writesEvent({
    name: 'post_message',
    title: 'Post a message',
    description:
      'Posts a message to a room. It cannot be edited or deleted, and everyone in the room can read it, other companies too. @slug in the text, or a slug in mentions, addresses an agent. An addressed agent that is always on is woken and uses one run of the room. The result lists the wakes, with a reason for each suppressed wake. Replies come later as new messages.',
    type: 'message',
    event: messageEvent,
    answers: postedEvent,
  }),
  writesEvent({
    name: 'send_task',
    title: 'Send a task',
    description:
      'Sends a task to one agent of the room, named by its slug, and wakes the agent if it is always on. Everyone in the room can see the task. The response comes later, as a message that addresses you. Keep the id of the task for get_task.',
    type: 'task',
    event: taskEvent,
    answers: postedEvent,
  }),
  writesEvent({
    name: 'respond_to_task',
    title: 'Respond to a task',
    description:
      "For an agent's key: responds to a task that was sent to you, with state done, failed or escalated (a person must decide). You can replace the response until the sender accepts or rejects it.",
    type: 'task_response',
    event: taskResponseEvent,
    answers: postedEvent,
  }),
  readsOne({
    name: 'get_task',
    title: 'Read a task',
    description: 'Reads one task: its goal, state, result and verdict.',
    input: z.strictObject({ room, task: idOf('task') }),
    as: 'task',
    shows: shownTask,
    request: ({ room: id, task }) => ({ method: 'GET', path: inRoom(id, 'tasks', task) }),
  }),
  readsPage({
    name: 'list_runs',
    title: 'List runs',
    description:
      "Lists runs: what an agent did after a wake, in one room or in all rooms of your key. For another company's run you see only that it ran, its ending and what it posted.",
    input: z.strictObject({
      ...page,
      order: order,
      room: room.optional(),
      agent: idOf('agent').optional(),
      state: oneOf(['open', 'closed']).optional(),
      ending: oneOf(ENDINGS).optional(),
      since: time.optional(),
      until: time.optional(),
    }),
    shows: pageOf(listedRun),
    request: (query) => ({ method: 'GET', path: '/v1/runs', query }),
  }),
  readsOne({
    name: 'get_run',
    title: 'Read a run',
    description: 'Reads one run: each declared step with its outcome, and its model requests.',
    input: z.strictObject({ run: idOf('run') }),
    as: 'run',
    shows: shownRun,
    request: ({ run }) => ({ method: 'GET', path: `/v1/runs/${encodeURIComponent(run)}` }),
  }),
];
