// A new version rolls out while runs are in flight: version 1 is stopped, version 2 becomes current, and every run ends
// normally. Worker versioning by deployment, on a real server.

import { randomBytes } from 'node:crypto';
import { decideHeldAction } from '../../prisma/store/runs/held-actions/decide';
import { PRESETS } from '../../prisma/store/rooms/roster';
import { wakeWorkflowId } from '../../workflows/contract';
import { closedRun, until } from '../support/run-waits';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { startService, type TestService } from '../support/service';
import { createWorld, type World } from '../support/world';

const deployment = `rolling-${randomBytes(4).toString('hex')}`;
const TASK_QUEUE = `test-${deployment}`;

let model: ScriptedModel;
let world: World;
const running: TestService[] = [];

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
});
afterAll(async () => {
  for (const service of running) await service.stop();
  await world.close();
  await model.stop();
});

async function startVersion(buildId: string): Promise<TestService> {
  const env = { TASK_QUEUE, WORKER_VERSIONING: 'on', WORKER_DEPLOYMENT: deployment, WORKER_BUILD_ID: buildId };
  const service = await startService(world, { ...env, WORKER_SHUTDOWN_GRACE_SECONDS: '20' });
  running.push(service);
  return service;
}

/** As `temporal worker deployment set-current-version` does; a version is known once its worker has polled. */
async function makeCurrent({ temporal }: TestService, buildId: string): Promise<void> {
  const { namespace, client } = temporal;
  await until(`version ${buildId} to be current`, () =>
    client.workflowService
      .setWorkerDeploymentCurrentVersion({ namespace, deploymentName: deployment, buildId, identity: 'test' })
      .then(
        () => true,
        () => false,
      ),
  );
}

async function workflowOf(messageId: string): Promise<string> {
  const { agentId } = await world.db.wake.findFirstOrThrow({ where: { messageId } });
  return wakeWorkflowId(agentId, messageId);
}

/** The versions that decided a run's steps, in order. */
async function versionsOf({ temporal }: TestService, messageId: string): Promise<string[]> {
  const { events } = await temporal.client.workflow.getHandle(await workflowOf(messageId)).fetchHistory();
  return (events ?? []).flatMap(({ workflowTaskCompletedEventAttributes: task }) =>
    task ? [task.deploymentVersion?.buildId ?? 'none'] : [],
  );
}

interface InFlight {
  readonly name: string;
  /** Posts a message, and resolves when its run is in the state in which the new version takes it over. */
  arrange(): Promise<{ messageId: string; resume: () => Promise<void> | void }>;
}

/** The states of runs while the version changes. */
const IN_FLIGHT: readonly InFlight[] = [
  {
    name: 'waits for the model, which answers the old version while that version stops',
    arrange: async () => {
      const held = answer.hold('Answered late.');
      model.script(held);
      const { messageId } = await world.post('@scribe take your time');
      await model.waitForRequests(2);
      return { messageId, resume: () => held.release() };
    },
  },
  {
    name: 'parked, with a reply that is approved when only the new version is left',
    arrange: async () => {
      const patient = await world.addAgent({ slug: 'patient', rights: { ...PRESETS.autonomous, reply: 'hold' } });
      model.script(answer.reply('Held.'));
      const { messageId } = await world.post('@patient may I');
      const parked = { messageId, parkedAt: { not: null } };
      await until('the run to park', () => world.db.run.findFirst({ where: parked }));
      return {
        messageId,
        resume: async () => {
          const action = await world.db.heldAction.findFirstOrThrow({ where: { agentId: patient.id } });
          const by = { keyId: 'key', name: 'Ada', companyId: action.companyId };
          const approval = { decision: 'approve', hash: action.sha256 } as const;
          await world.db.transaction((tx) => decideHeldAction(tx, by, action.id, approval));
        },
      };
    },
  },
];

test('after version 1 is stopped, version 2 continues the open runs: one request and one reply each', async () => {
  const one = await startVersion('v1');
  await makeCurrent(one, 'v1');
  model.script(answer.reply('From version 1.'));
  const before = await world.post('@scribe are you there');
  await closedRun(world.db, before.messageId);
  expect(await versionsOf(one, before.messageId)).not.toContain('v2');

  const inFlight: { name: string; messageId: string; resume: () => Promise<void> | void }[] = [];
  for (const { name, arrange } of IN_FLIGHT) inFlight.push({ name, ...(await arrange()) });

  const two = await startVersion('v2');
  await makeCurrent(two, 'v2');
  const stopped = one.service.stop();
  for (const { resume } of inFlight) await resume();
  await stopped;
  model.script(answer.reply('From version 2.'));
  const after = await world.post('@scribe are you still there');

  for (const { messageId } of [...inFlight, after]) {
    const run = await closedRun(world.db, messageId);
    expect(run).toMatchObject({ ending: 'replied', fencedCount: 0, requests: [{ number: 1, outcome: 'answered' }] });
    expect(await world.db.message.count({ where: { runId: run.id } })).toBe(1);
    const { temporal } = two;
    await temporal.client.workflow.getHandle(await workflowOf(messageId)).result();
    expect((await versionsOf(two, messageId)).at(-1)).toBe('v2');
  }
  for (const { messageId } of inFlight) expect((await versionsOf(two, messageId))[0]).toBe('v1');
  expect(await versionsOf(two, after.messageId)).not.toContain('v1');
});

test('versioning is off by default: a worker gets runs without becoming current', async () => {
  const plain = await startService(world, { TASK_QUEUE: `${TASK_QUEUE}-plain` });
  try {
    model.script(answer.reply('Unversioned.'));
    const two = running.splice(0);
    for (const service of two) await service.stop();
    const { messageId } = await world.post('@scribe and without versions');
    expect(await closedRun(world.db, messageId)).toMatchObject({ ending: 'replied' });
  } finally {
    await plain.stop();
  }
});
