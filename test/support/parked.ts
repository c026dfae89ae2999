// A world with a worker, an API and runs that park, for tests with a real Temporal.

import { wakeWorkflowId, type DeclaredReply, type Rights } from '../../workflows/contract';
import { RECONCILER_TIMES, type ReconcilerDeps } from '../../worker/reconciler';
import { openWorldApi, type WorldApi } from './world-api';
import { decide, FULL_REPLY, setRights } from './held-actions';
import { startTestWorker, until, type TestWorker } from './runs';
import { answer, startScriptedModel, type ScriptedModel } from './scripted-model-server';
import { createWorld, type World } from './world';

export interface Parked {
  readonly id: string;
  readonly messageId: string;
}

export interface ParkedWorld {
  readonly model: ScriptedModel;
  readonly world: World;
  readonly api: WorldApi;
  /** The worker of the runs. `withoutWorker` replaces it. */
  worker: TestWorker;
  /** A parked run of the scribe: it has executed its allowed steps and waits for approvals. */
  parkedRun(rights: Partial<Rights>, reply?: Partial<DeclaredReply>): Promise<Parked>;
  untilParked(messageId: string): Promise<Parked>;
  workflowOf(messageId: string, runId?: string): ReturnType<TestWorker['client']['workflow']['getHandle']>;
  /** Resolves when the search attribute of an execution is `parked`. */
  untilReportedParked(messageId: string, runId?: string): Promise<unknown>;
  approve(run: Parked, step: string): ReturnType<typeof decide>;
  decline(run: Parked, step: string): ReturnType<typeof decide>;
  /** The dependencies of a reconciler without waiting times. */
  reconciler(): ReconcilerDeps;
  /** Stops the worker and runs `work`, which may start workers on the given new queue. Then starts a new worker. */
  withoutWorker(work: (queue: string) => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

/** Opens the world. Tasks of the scribe wake no agent, so that only the scribe uses the script of the model. */
export async function openParkedWorld(): Promise<ParkedWorld> {
  const model = await startScriptedModel();
  const world = await createWorld({ modelUrl: model.url });
  const api = await openWorldApi(world);
  await world.db.agent.update({ where: { id: world.scout.id }, data: { alwaysOn: false } });
  let queues = 0;
  const parkedWorld: ParkedWorld = {
    model,
    world,
    api,
    worker: await startTestWorker(world),
    async parkedRun(rights, reply = FULL_REPLY) {
      await setRights(world, rights);
      model.script(answer.reply(reply));
      const { messageId } = await world.post('@scribe please');
      return parkedWorld.untilParked(messageId);
    },
    async untilParked(messageId) {
      const { id } = await until('the run to park', () =>
        world.db.run.findFirst({ where: { messageId, parkedAt: { not: null } } }),
      );
      return { id, messageId };
    },
    workflowOf: (messageId, runId) =>
      parkedWorld.worker.client.workflow.getHandle(wakeWorkflowId(world.scribe.id, messageId), runId),
    untilReportedParked: (messageId, runId) =>
      until('the execution to park', async () => {
        const { searchAttributes } = await parkedWorld.workflowOf(messageId, runId).describe();
        return searchAttributes['RunState']?.[0] === 'parked';
      }),
    approve: (run, step) => decide(world, api.host.member, run.id, step, 'approve'),
    decline: (run, step) => decide(world, api.host.member, run.id, step, 'decline'),
    reconciler: () => ({
      db: world.db,
      client: parkedWorld.worker.client,
      taskQueue: parkedWorld.worker.taskQueue,
      timeLimitMs: 30_000,
      times: { ...RECONCILER_TIMES, orphanGraceSeconds: 0, recheckSeconds: 0 },
      onAction: () => undefined,
    }),
    async withoutWorker(work) {
      await parkedWorld.worker.stop();
      queues += 1;
      try {
        await work(`${parkedWorld.worker.taskQueue}-${queues}`);
      } finally {
        parkedWorld.worker = await startTestWorker(world);
      }
    },
    async close() {
      await api.close();
      await parkedWorld.worker.stop();
      await world.close();
      await model.stop();
    },
  };
  return parkedWorld;
}
