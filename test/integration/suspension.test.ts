// The suspension of a company: its open runs end at once and visibly, and late activities write nothing.

import { claimMessage } from '../../prisma/store/runs/claims';
import { resumeCompany, suspendCompany } from '../../prisma/store/lifecycle/companies';
import { closeRun } from '../../prisma/store/runs/fence';
import { deliverWakes } from '../../prisma/store/runs/wakes';
import { createWorld, type World } from '../support/world';

let world: World;

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1' });
});
afterAll(async () => {
  await world.close();
});

const execution = { workflowId: 'wake/test', temporalRunId: 'temporal-run' };

async function claimed(): Promise<string> {
  const { messageId } = await world.post('@scout go');
  await deliverWakes(world.db, 10);
  const wake = { agentId: world.scout.id, messageId };
  const outcome = await claimMessage(world.db, execution, wake, { timeLimitMs: 60_000 });
  if (outcome.kind !== 'granted') throw new Error(`not granted: ${outcome.kind}`);
  return outcome.runId;
}

test('a suspension cancels the open run and suppresses the pending wake, and a late close returns the ending', async () => {
  const runId = await claimed();
  const waiting = await world.post('@scout and then this');
  const { company } = await world.db.transaction((tx) => suspendCompany(tx, world.guest.id));
  expect(company.suspendedAt).not.toBeNull();

  const run = await world.db.run.findUniqueOrThrow({ where: { id: runId } });
  expect(run).toMatchObject({ ending: 'cancelled', cancelledBy: 'operator', cancelReason: 'suspended' });
  const endings = await world.db.roomEvent.findMany({ where: { subjectId: runId, type: 'run_ended' } });
  expect(endings).toHaveLength(1);
  expect(await closeRun(world.db, execution, runId, { kind: 'ended' })).toBe('cancelled');

  expect(await deliverWakes(world.db, 10)).toEqual([]);
  const wake = await world.db.wake.findFirstOrThrow({ where: { messageId: waiting.messageId } });
  expect(wake).toMatchObject({ state: 'suppressed', reason: 'suspended' });

  await world.db.transaction((tx) => suspendCompany(tx, world.guest.id));
  expect(await world.db.roomEvent.count({ where: { subjectId: runId, type: 'run_ended' } })).toBe(1);
  const resumed = await world.db.transaction((tx) => resumeCompany(tx, world.guest.id));
  expect(resumed.company.suspendedAt).toBeNull();
  await claimed();
});
