// Checks budgets without the code that enforces them: compares the reservations of a day with the wakes and the ledger.

import type { RequestResult } from '../../prisma/store/runs/model-requests';
import type { Database } from '../../prisma/store/db/database';
import { answered } from './store-runs';

/** A successful answer that used this many tokens. */
export function answeredWith(inputTokens: number | null, outputTokens: number | null): RequestResult {
  return { ...answered({ reply: 'Done.' }), httpStatus: 200, inputTokens, outputTokens };
}

/** The tokens that count today, settled or still reserved, by agent id and by company id. */
export async function countedToday(db: Database): Promise<Map<string, number>> {
  const rows = await db.$queryRaw<{ id: string; n: number }[]>`
    SELECT o.id, sum(coalesce(t.settled, t.reserved))::float8 AS n
    FROM token_reservations t CROSS JOIN LATERAL (VALUES (t.agent_id), (t.company_id)) AS o(id)
    WHERE t.day = (clock_timestamp() AT TIME ZONE 'UTC')::date GROUP BY o.id`;
  return new Map(rows.map((row) => [row.id, row.n]));
}

/** Every violation of the rules of reservations, as text. Empty if there is none. */
export async function budgetViolations(db: Database): Promise<string[]> {
  const found: string[] = [];
  const counted = await countedToday(db);
  const agents = await db.agent.findMany();
  const companies = await db.company.findMany();
  for (const { id, tokensPerDay } of [...agents, ...companies]) {
    const n = counted.get(id) ?? 0;
    if (tokensPerDay !== null && n > Number(tokensPerDay)) found.push(`${id} counts ${n} of ${tokensPerDay}`);
  }
  const wakes = await db.wake.findMany({ include: { reservation: true } });
  const runs = await db.run.findMany({ include: { requests: { orderBy: { number: 'asc' } } } });
  for (const wake of wakes) {
    const agent = agents.find(({ id }) => id === wake.agentId);
    const company = companies.find(({ id }) => id === wake.companyId);
    const limited = agent?.tokensPerDay != null || company?.tokensPerDay != null;
    const { reservation } = wake;
    const reserves = wake.deliveredAt !== null && limited;
    if (reserves !== (reservation !== null)) {
      found.push(`${wake.id} is ${wake.state} ${reservation ? 'with' : 'without'} a reservation`);
    }
    if (!reservation) continue;
    const run = runs.find(({ wakeId }) => wakeId === wake.id);
    if ((run?.state === 'closed') !== (reservation.settled !== null)) {
      found.push(`${wake.id}: its run is ${run?.state ?? 'missing'}, it has settled ${reservation.settled}`);
    }
    if (run?.state !== 'closed' || reservation.settled === null) continue;
    // Computed from the ledger alone: an error answer used nothing; any other request without a count may have used all.
    const used = run.requests.reduce((sum, each) => sum + (each.inputTokens ?? 0n) + (each.outputTokens ?? 0n), 0n);
    const isUnknown = run.requests.some(
      (each) => each.inputTokens === null && !(each.outcome === 'retry' && each.httpStatus === 529),
    );
    const expected = isUnknown && used < reservation.reserved ? reservation.reserved : used;
    if (reservation.settled !== expected) {
      found.push(`${wake.id} (${run.ending}) used ${expected} and has settled ${reservation.settled}`);
    }
  }
  return found;
}
