// Messages between the lab and its workers, and the input of the lab's workflows. No runtime imports, because it is bundled.

import type { DeclaredReply } from '../../workflows/contract';
import type { Point } from './points';

/** One job: a message to an agent in their own room. */
export interface LabJob {
  readonly roomId: string;
  readonly companyId: string;
  readonly agentId: string;
  readonly agentName: string;
  readonly messageId: string;
}

/** The room's context for the model, from `renderContext`. */
export interface LabContext {
  readonly system: string;
  readonly user: string;
}

export interface LabInput extends LabJob {
  /** Timeout of an attempt: the same as a run receives with its claim. */
  readonly attemptMs: number;
}

export type LabReply = DeclaredReply;

/** The job's agent from a workflow id, `wake/{agent}/{message}` or `lab/{agent}/{message}`. It identifies the job. */
export function agentOf(workflowId: string): string {
  return workflowId.split('/')[1] ?? '';
}

export function labWorkflowId(job: LabJob): string {
  return `lab/${job.agentId}/${job.messageId}`;
}

/** To a worker: stop these agents' jobs at these points, and kill yourself when all have reached them. */
export interface ArmMessage {
  readonly type: 'arm';
  readonly targets: readonly { readonly agent: string; readonly point: Point }[];
  /** How long the first job waits for the others. Shorter than any timeout. */
  readonly graceMs: number;
}

/** To a waiting worker with loaded code: start to work. */
export interface BeginMessage {
  readonly type: 'begin';
}

/** From a worker: its code is loaded, or it is armed. It sends `ready` when it polls, like every worker. */
export interface StateMessage {
  readonly type: 'loaded' | 'armed';
}

/** A line of the log that a worker writes before it dies. Written synchronously, because SIGKILL loses buffered output. */
export interface DeathLine {
  readonly what: 'reached' | 'dies';
  readonly agent: string;
  readonly point: Point;
  readonly pid: number;
  readonly at: number;
}
