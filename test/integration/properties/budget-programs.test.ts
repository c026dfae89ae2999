// Random programs of deliveries, claims, requests and endings, concurrently over eight connections: in every order, no
// budget is exceeded, and the settled tokens match the ledger.

import fc from 'fast-check';
import { renderContext } from '../../../activities/context/render';
import { claimAsLost, claimMessage } from '../../../prisma/store/runs/claims';
import { Fenced } from '../../../prisma/store/db/errors';
import { claimRequest, endRequest, type RequestResult } from '../../../prisma/store/runs/model-requests';
import { closeAsLost, closeRun } from '../../../prisma/store/runs/fence';
import { deliverWakes } from '../../../prisma/store/runs/wakes';
import { wakeWorkflowId } from '../../../workflows/contract';
import { answeredWith, budgetViolations } from '../../support/budgets';
import { LIMITS, NO_FACTS } from '../../support/store-runs';
import { createWorld, type World } from '../../support/world';
import { repetitions } from '../../support/test-runs';

const PER_RUN = 90;
let world: World;
let agents: { id: string; slug: string }[];

beforeAll(async () => {
  world = await createWorld({ modelUrl: 'http://127.0.0.1:9/v1', runAllowance: 1_000_000 });
  agents = [world.scribe, await world.addAgent({ slug: 'second' }), world.scout];
  await world.db.agent.updateMany({ data: { tokensPerRun: PER_RUN } });
  // One agent has its own and its company's budget, one only its company's, one only its own.
  await world.db.company.update({ where: { id: world.host.id }, data: { tokensPerDay: 700 } });
  await world.db.agent.update({ where: { id: world.scribe.id }, data: { tokensPerDay: 400 } });
  await world.db.agent.update({ where: { id: world.scout.id }, data: { tokensPerDay: 300 } });
});
afterAll(() => world.close());

const RESULTS: readonly (RequestResult | null)[] = [
  answeredWith(70, 20),
  answeredWith(3, 4),
  answeredWith(null, null),
  { ...NO_FACTS, outcome: 'retry', code: 'overloaded', httpStatus: 529 },
  { ...NO_FACTS, outcome: 'aborted' },
  null,
];

const commands = fc.record({
  kind: fc.constantFrom('deliver', 'deliver', 'claim', 'claim', 'ask', 'ask', 'close', 'lost'),
  wake: fc.nat(),
  variant: fc.nat(5),
});
type Command = typeof commands extends fc.Arbitrary<infer T> ? T : never;

async function play(command: Command, messages: readonly { agentId: string; messageId: string }[]): Promise<void> {
  const wake = messages[command.wake % messages.length];
  if (!wake) throw new Error('the program has no wake');
  // A copy is a second execution, which is fenced.
  const temporalRunId = `${wake.messageId} ${wake.agentId} ${command.variant === 5 ? 'copy' : 'first'}`;
  const execution = { workflowId: wakeWorkflowId(wake.agentId, wake.messageId), temporalRunId };
  const run = await world.db.run.findFirst({ where: wake });
  switch (command.kind) {
    case 'deliver':
      await deliverWakes(world.db, 1 + command.variant);
      return;
    case 'claim':
      await claimMessage(world.db, execution, wake, LIMITS);
      return;
    case 'ask': {
      if (!run) return;
      const claim = await claimRequest(world.db, execution, run.id, renderContext);
      const result = RESULTS[command.variant];
      if (claim.kind === 'send' && result) {
        await endRequest(world.db, execution, run.id, claim.number, result, claim.target);
      }
      return;
    }
    case 'close':
      if (run) await closeRun(world.db, execution, run.id, { kind: 'failed', code: 'internal' });
      return;
    default:
      if (run) await closeAsLost(world.db, run.id);
      else await claimAsLost(world.db, { ...wake, workflowId: execution.workflowId }, LIMITS);
  }
}

test('no order of deliveries and endings exceeds a budget, leaks a reservation or settles against the ledger', async () => {
  const program = fc.array(fc.array(commands, { minLength: 1, maxLength: 6 }), { minLength: 5, maxLength: 15 });
  await fc.assert(
    fc.asyncProperty(program, async (batches) => {
      // Each program has its own day: earlier reservations move to yesterday.
      await world.db.$executeRaw`UPDATE token_reservations SET day = day - 1`;
      const messages: { agentId: string; messageId: string }[] = [];
      for (let n = 0; n < 6; n += 1) {
        const { messageId } = await world.post('@scribe @second @scout please');
        messages.push(...agents.map(({ id }) => ({ agentId: id, messageId })));
      }
      for (const batch of batches) {
        await Promise.all(
          batch.map((each) =>
            play(each, messages).catch((error: unknown) => {
              if (!(error instanceof Fenced)) throw error;
            }),
          ),
        );
        const found = await budgetViolations(world.db);
        if (found.length > 0) throw new Error(found.join('\n'));
      }
      // The reconciler ends the remaining runs. After that, no reservation is open.
      while ((await deliverWakes(world.db, 50)).length > 0);
      for (const wake of messages) {
        const run = await world.db.run.findFirst({ where: wake });
        if (run) await closeAsLost(world.db, run.id);
        else await claimAsLost(world.db, { ...wake, workflowId: wakeWorkflowId(wake.agentId, wake.messageId) }, LIMITS);
      }
      const found = await budgetViolations(world.db);
      if (found.length > 0) throw new Error(found.join('\n'));
      if ((await world.db.tokenReservation.count({ where: { settled: null } })) > 0)
        throw new Error('a reservation is still open');
    }),
    { numRuns: repetitions(3, 12), endOnFailure: true },
  );
  const delivered = await world.db.tokenReservation.count();
  const turnedAway = await world.db.wake.count({ where: { reason: 'budget' } });
  // Programs that never reach a budget would also pass.
  expect(delivered).toBeGreaterThan(20);
  expect(turnedAway).toBeGreaterThan(5);
});
