// What the lab and its workers say to each other, and what the lab's workflows are given. No runtime import: bundled.

import type { DeclaredReply } from '../../workflows/contract';
import type { Point } from './points';

/** One job: a message for an agent in a room of their own. */
export interface LabJob {
  readonly roomId: string;
  readonly companyId: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly messageId: string;
}

/** What the room looked like to the model, as `renderContext` makes it. */
export interface LabContext {
  readonly system: string;
  readonly user: string;
}

export interface LabInput extends LabJob {
  /** Where the worker's own time-outs are: the same numbers that a run gets with its claim. */
  readonly attemptMs: number;
}

export type LabReply = DeclaredReply;

/** A job's agent, by which its runs and workflows are told apart: `wake/{agent}/{message}`, `lab/{agent}/{message}`. */
export function agentOf(workflowId: string): string {
  return workflowId.split('/')[1] ?? '';
}

export function labWorkflowId(job: LabJob): string {
  return `lab/${job.agentId}/${job.messageId}`;
}

/** To a worker: these agents' jobs stand at these points, and when all of them do, you die. */
export interface ArmMessage {
  readonly type: 'arm';
  readonly targets: readonly { readonly agent: string; readonly point: Point }[];
  /** After the first has arrived, this long for the others. Less than any time-out. */
  readonly graceMs: number;
}

/** To a worker that has loaded its code and waits: begin to work. */
export interface BeginMessage {
  readonly type: 'begin';
}

/** From a worker: its code is loaded, or it is armed. When it polls it says `ready`, as every worker does. */
export interface StateMessage {
  readonly type: 'loaded' | 'armed';
}

/** A line of the log that a worker writes before it dies: written at once, since a SIGKILL flushes nothing. */
export interface DeathLine {
  readonly what: 'stands' | 'dies';
  readonly agent: string;
  readonly point: Point;
  readonly pid: number;
  readonly at: number;
}
