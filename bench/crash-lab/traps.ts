// The kill points in a worker. Each armed job stops at its point, and the last one to arrive kills the process with SIGKILL.
// No code after the point of a stopped job runs, so the result is the same as if each job had been killed alone.

import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';
import type { ClientRequest } from 'node:http';
import { Context } from '@temporalio/activity';
import type { ActivityDeps } from '../../activities';
import { agentOf, type ArmMessage, type DeathLine, type StateMessage } from './messages';
import type { Point } from './points';

/** Called at each kill point. Returns at once, or never if this job must die at this point. */
export type Pass = (point: Point, workflowId: string) => Promise<void>;

/** Creates the hook; it handles `arm` messages of the parent. `log` is the file for the death lines. */
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
      write('reached', agent, point);
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

/** The workflow id of the current activity. */
export function currentWorkflowId(): string {
  return Context.current().info.workflowExecution?.workflowId ?? '';
}

/**
 * Adds kill points to a model request: before it is sent, after its last byte was given to the operating system, and after
 * the answer was received.
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
    let stopped = Promise.resolve();
    const answer = await whenSent.run(
      () => {
        stopped = pass('model:inside', workflowId);
      },
      () => requestReply(...args),
    );
    await stopped;
    await pass('model:between', workflowId);
    return answer;
  };
}
