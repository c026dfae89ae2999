// In a worker: jobs stand at their points, and the last to arrive kills the process, synchronously, by SIGKILL.
// Until then those that arrived are exactly where they would have died alone: nothing after their point has run.

import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';
import type { ClientRequest } from 'node:http';
import { Context } from '@temporalio/activity';
import type { ActivityDeps } from '../../activities';
import { agentOf, type ArmMessage, type DeathLine, type StateMessage } from './messages';
import type { Point } from './points';

/** Called wherever a point is. Returns at once unless this job is to die there; then it never returns. */
export type Pass = (point: Point, workflowId: string) => Promise<void>;

/** Listens for `arm` from the parent. `log` is a file to append to. */
export function createPass(log: string): Pass {
  let points = new Map<string, Point>();
  let arrived = new Set<string>();
  let graceMs = 0;
  process.on('message', (message) => {
    if (!isArm(message)) return;
    points = new Map(message.targets.map(({ agent, point }) => [agent, point]));
    arrived = new Set();
    graceMs = message.graceMs;
    process.send?.({ type: 'armed' } satisfies StateMessage);
  });
  const write = (what: DeathLine['what'], agent: string, point: Point): void => {
    const line: DeathLine = { what, agent, point, pid: process.pid, at: Date.now() };
    appendFileSync(log, `${JSON.stringify(line)}\n`);
  };
  const die = (agent: string, point: Point): void => {
    write('dies', agent, point);
    process.kill(process.pid, 'SIGKILL');
  };
  return async (point, workflowId) => {
    const agent = agentOf(workflowId);
    if (points.get(agent) !== point && !arrived.has(agent)) return;
    if (!arrived.has(agent)) {
      write('stands', agent, point);
      arrived.add(agent);
      if (arrived.size === points.size) die(agent, point);
      if (arrived.size === 1) setTimeout(() => die(agent, point), graceMs);
    }
    await new Promise<never>(() => undefined);
  };
}

function isArm(message: unknown): message is ArmMessage {
  return typeof message === 'object' && message !== null && 'type' in message && message.type === 'arm';
}

/** The workflow of the activity that this code runs in. */
export function currentWorkflowId(): string {
  return Context.current().info.workflowExecution?.workflowId ?? '';
}

/**
 * A model request with its points: about to be sent, its last byte with the operating system and no answer handed on,
 * and the answer in hand.
 */
export function watchRequests(requestReply: ActivityDeps['requestReply'], pass: Pass): ActivityDeps['requestReply'] {
  const whenSent = new AsyncLocalStorage<() => void>();
  subscribe('http.client.request.start', (message) => {
    const sent = whenSent.getStore();
    if (sent) (message as { request: ClientRequest }).request.once('finish', sent);
  });
  return async (...args) => {
    const workflowId = currentWorkflowId();
    await pass('model:before', workflowId);
    let stand = Promise.resolve();
    const answer = await whenSent.run(
      () => {
        stand = pass('model:inside', workflowId);
      },
      () => requestReply(...args),
    );
    await stand;
    await pass('model:between', workflowId);
    return answer;
  };
}
