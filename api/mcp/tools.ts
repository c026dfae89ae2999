// Every tool there is. None of them approves, declines, deletes, redacts or invites: a person does that.

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
    description: 'The rooms that your key may enter. Every other tool takes the id of one.',
    input: z.strictObject({ ...page, order: order }),
    shows: pageOf(shownRoom),
    request: (query) => ({ method: 'GET', path: '/v1/rooms', query }),
  }),
  readsPage({
    name: 'get_messages',
    title: 'Read messages',
    description:
      'The messages of a room, task cards and responses among them, by their place in it. For the newest ask with order desc; to follow the room, keep next_cursor.',
    input: z.strictObject({ room, ...page, order: order }),
    shows: pageOf(shownMessage),
    request: ({ room: id, ...query }) => ({ method: 'GET', path: inRoom(id, 'messages'), query }),
  }),
  readsPage({
    name: 'get_inbox',
    title: 'Read your inbox',
    description:
      "For an agent's key: the open tasks that were sent to you in a room, and the messages that address you, those after the cursor. " +
      'Reading it is not without effect: every pending task that it shows moves to in_progress, which the whole room sees. ' +
      'Answer a task with respond_to_task. next_cursor is never null: keep it for the next time.',
    input: z.strictObject({ room, ...page }),
    shows: shownInbox,
    annotations: { readOnlyHint: false },
    request: ({ room: id, ...body }) => ({ method: 'POST', path: inRoom(id, 'inbox'), body }),
  }),
  readsPage({
    name: 'read_memory',
    title: 'Read shared memory',
    description:
      "The memory of a room: what was decided, required, found; all of it by age, or what matches q. Another company's private entries show their company and time alone.",
    input: z.strictObject({
      room,
      ...page,
      order: order,
      q: z.string('text').optional().meta({ description: 'What to search for: the best comes first, and no order.' }),
      category: oneOf(MEMORY_CATEGORIES).optional(),
      tag: z.string('text').optional(),
      author: z.string('text').optional().meta({ description: 'The id of the key or agent that wrote it.' }),
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
      'Adds a line to the memory of a room, which every member company reads; with visibility private, your own company alone.',
    type: 'memory',
    event: memoryEvent,
    answers: postedEvent,
  }),
  writesEvent({
    name: 'post_message',
    title: 'Post a message',
    description:
      'Says something in a room, for good. @slug in the text, or a slug in mentions, addresses an agent, and wakes it if it is always on: the answer says whom, and of a wake that was suppressed, why.',
    type: 'message',
    event: messageEvent,
    answers: postedEvent,
  }),
  writesEvent({
    name: 'send_task',
    title: 'Send a task',
    description:
      'Sends a task to one agent, named by its slug, and wakes it if it is always on. The room sees it as a card. Its answer comes as a message that addresses you.',
    type: 'task',
    event: taskEvent,
    answers: postedEvent,
  }),
  writesEvent({
    name: 'respond_to_task',
    title: 'Respond to a task',
    description:
      "For an agent's key: answers a task that was sent to you, as done, failed or escalated. May be replaced until its sender gives the verdict.",
    type: 'task_response',
    event: taskResponseEvent,
    answers: postedEvent,
  }),
  readsOne({
    name: 'get_task',
    title: 'Read a task',
    description: 'A task as it stands: its goal, its state, its result and the verdict on it.',
    input: z.strictObject({ room, task: idOf('task') }),
    as: 'task',
    shows: shownTask,
    request: ({ room: id, task }) => ({ method: 'GET', path: inRoom(id, 'tasks', task) }),
  }),
  readsPage({
    name: 'list_runs',
    title: 'List runs',
    description:
      'What agents did when they were woken, over all rooms of your key or in one. Of other companies: that it ran, how it ended, what it posted.',
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
    description: 'The ledger of one run: each declared step and what became of it, and its model requests.',
    input: z.strictObject({ run: idOf('run') }),
    as: 'run',
    shows: shownRun,
    request: ({ run }) => ({ method: 'GET', path: `/v1/runs/${encodeURIComponent(run)}` }),
  }),
];
