// Fills a room with examples of everything that the console shows, for the browser tests and the screenshots.

import { deliverWakes } from '../../prisma/store/runs/wakes';
import { claimMessage } from '../../prisma/store/runs/claims';
import { closeRun } from '../../prisma/store/runs/fence';
import { createClient } from './api';
import type { TestConsole } from './console';
import { heldOf, heldRun } from './held-actions';
import { LIMITS, newExecution, openRun } from './store-runs';

export interface Story {
  readonly token: string;
  readonly pages: Readonly<Record<string, string>>;
}

/** Fills the world's room and returns the path of every page that shows a part of it. */
export async function createConsoleStory(app: TestConsole): Promise<Story> {
  const { world } = app;
  const { token } = await app.hostKey('admin', 'Ada');
  const client = createClient(app.url, token);
  const room = `/v1/rooms/${world.roomId}`;
  await client.post(`${room}/events`, { type: 'message', text: 'The launch is on Friday. Who counts the crates?' });
  await client.post(`${room}/events`, {
    type: 'memory',
    category: 'decision',
    content: 'We ship on Friday in any weather.',
    tags: ['launch'],
  });
  await client.post(`${room}/events`, {
    type: 'task',
    to: 'scout',
    goal: 'Count the crates in the second hall.',
    acceptance_criteria: ['a number', 'who counted'],
    priority: 'high',
  });
  const failed = await openRun(world, { text: 'draft the invitation' });
  await closeRun(world.db, failed.execution, failed.id, { kind: 'failed', code: 'internal' });
  await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: new Date() } });
  await world.post('@scribe are you there?');
  await world.db.agent.update({ where: { id: world.scribe.id }, data: { pausedAt: null } });
  const send = {
    to: 'scout',
    goal: 'Weigh every crate before noon.',
    acceptance_criteria: ['kilograms'],
    priority: 'high',
    deadline: null,
  } as const;
  const run = await heldRun(world, { task_send: 'hold' }, { reply: 'I will ask Scout.', tasks_to_send: [send] });
  const held = (await heldOf(world, run.id)).get('task_send:1');
  if (!held) throw new Error('the run has no held action');
  const foreignMessage = await world.post('@scout and the weights?');
  await deliverWakes(world.db, 100);
  const foreign = newExecution(world.scout.id, foreignMessage.messageId);
  const claim = await claimMessage(
    world.db,
    foreign,
    { agentId: world.scout.id, messageId: foreignMessage.messageId },
    LIMITS,
  );
  if (claim.kind !== 'granted') throw new Error('the claim was not granted');
  return {
    token,
    pages: {
      rooms: '/console/rooms',
      room: `/console/rooms/${world.roomId}`,
      'room-older': `/console/rooms/${world.roomId}?up_to=2`,
      'room-search': `/console/rooms/${world.roomId}?q=friday`,
      task: `/console/rooms/${world.roomId}/task`,
      'held-actions': '/console/held-actions',
      'held-actions-declined': '/console/held-actions?state=declined',
      'held-action': `/console/held-actions/${held.id}`,
      'held-action-approve': `/console/held-actions/${held.id}/approve`,
      'held-action-decline': `/console/held-actions/${held.id}/decline`,
      run: `/console/runs/${run.id}`,
      'run-failed': `/console/runs/${failed.id}`,
      'run-of-others': `/console/runs/${claim.runId}`,
      'run-cancel': `/console/runs/${run.id}/cancel`,
      usage: '/console/usage',
      nothing: '/console/nothing',
    },
  };
}
