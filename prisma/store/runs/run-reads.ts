// Reads runs and their ledger, as the companies in a room may see them. Runs change in claims.ts, fence.ts and
// run-closing.ts.

import type { Ending } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';
import type { PriceTable } from '../../../workflows/policy/prices';
import { NotFound } from '../db/errors';
import { pageOf, type Page, type PageRequest } from '../db/paging';
import { exactCount } from '../eligibility/request-usage';
import type { Reader } from '../db/transaction';
import { runUsage } from '../reports/usage';
import { equals, listIdsInRooms, roomsOf, runTime, type Viewer } from '../access/viewer';

export interface RunFilter {
  readonly room: string | undefined;
  readonly agent: string | undefined;
  readonly state: 'open' | 'closed' | undefined;
  readonly ending: Ending | undefined;
  /** Bounds of the run's time as the viewer sees it (`runTime`): `since` is included, `until` is not. */
  readonly since: Date | undefined;
  readonly until: Date | undefined;
}

const LEDGER = {
  steps: { orderBy: { position: 'asc' } },
  requests: { orderBy: { number: 'asc' } },
  held: { orderBy: { id: 'asc' }, select: { id: true, stepKey: true, state: true } },
} satisfies Prisma.RunInclude;

// Columns that are not read: content is never shown here, and manifests are too large for a list.
const OMITTED_IN_LIST = { context: true, reply: true, manifest: true } satisfies Prisma.RunOmit;
const OMITTED_IN_DETAIL = { context: true, reply: true } satisfies Prisma.RunOmit;

type ListedRun = Prisma.RunGetPayload<{ include: typeof LEDGER; omit: typeof OMITTED_IN_LIST }>;
type ShownRun = Prisma.RunGetPayload<{ include: typeof LEDGER; omit: typeof OMITTED_IN_DETAIL }>;

/** The runs in the viewer's rooms, as the viewer may see them, without their manifests. */
export async function listRuns(
  reader: Reader,
  viewer: Viewer,
  filter: RunFilter,
  page: PageRequest,
  prices: PriceTable,
): Promise<Page<Record<string, unknown>>> {
  const conditions = [
    equals(Prisma.sql`t.agent_id`, filter.agent),
    equals(Prisma.sql`t.state`, filter.state),
    equals(Prisma.sql`t.ending`, filter.ending),
    filter.since ? Prisma.sql`${runTime(viewer.companyId)} >= ${filter.since}` : Prisma.sql`true`,
    filter.until ? Prisma.sql`${runTime(viewer.companyId)} < ${filter.until}` : Prisma.sql`true`,
  ];
  const ids = await listIdsInRooms(reader, 'runs', viewer, filter.room, Prisma.join(conditions, ' AND '), page);
  const runs = await reader.run.findMany({
    where: { id: { in: ids } },
    include: LEDGER,
    omit: OMITTED_IN_LIST,
    orderBy: { id: page.order },
  });
  const { rows, next } = pageOf(runs, page, (run) => run.id);
  return { rows: rows.map((run) => runResource(run, viewer, prices)), next };
}

/** One run, as the viewer may see it. @throws NotFound also if the viewer may not see it */
export async function loadRun(
  reader: Reader,
  viewer: Viewer,
  runId: string,
  prices: PriceTable,
): Promise<Record<string, unknown>> {
  const run = await reader.run.findFirst({ where: { id: runId, room: roomsOf(viewer) }, omit: OMITTED_IN_DETAIL });
  if (!run) throw new NotFound('no such run');
  // Separate reads: in a transaction, Prisma would send the reads of an `include` concurrently over one connection.
  const where = { runId };
  const steps = await reader.runStep.findMany({ where, ...LEDGER.steps });
  const requests = await reader.modelRequest.findMany({ where, ...LEDGER.requests });
  const held = await reader.heldAction.findMany({ where, ...LEDGER.held });
  return runResource({ ...run, steps, requests, held }, viewer, prices);
}

function runResource(run: ListedRun | ShownRun, viewer: Viewer, prices: PriceTable): Record<string, unknown> {
  const reply = run.steps.find((step) => step.stepKey === 'reply' && step.state === 'done');
  const shown = {
    id: run.id,
    room: run.roomId,
    company: run.companyId,
    agent: run.agentId,
    message: run.messageId,
    state: run.state,
    ending: run.ending,
    posted: reply?.effectId ?? null,
  };
  if (run.companyId !== viewer.companyId) return shown;
  return {
    ...shown,
    wake: run.wakeId,
    code: run.code,
    on_crash: run.onCrash,
    hop: run.hop,
    time_limit_ms: run.timeLimitMs,
    claimed_at: run.claimedAt.toISOString(),
    closed_at: run.closedAt?.toISOString() ?? null,
    model: run.model,
    model_key: run.modelKeyId,
    model_key_version: run.modelKeyVersion,
    reply_sha256: run.replySha256,
    rights: run.rights,
    retry_at: run.retryAt?.toISOString() ?? null,
    cancelled: run.cancelledBy === null ? null : { by: run.cancelledBy, why: run.cancelReason },
    fenced_count: run.fencedCount,
    parked_at: run.parkedAt?.toISOString() ?? null,
    parked_ms: Number(run.parkedMs),
    held_actions: run.held.map((held) => ({ id: held.id, step: held.stepKey, state: held.state })),
    temporal: { workflow_id: run.workflowId, run_id: run.temporalRunId },
    steps: run.steps.map((step) => ({
      key: step.stepKey,
      kind: step.kind,
      position: step.position,
      state: step.state,
      code: step.code,
      effect: step.effectId,
      at: step.at.toISOString(),
    })),
    requests: run.requests.map((request) => ({
      number: request.number,
      outcome: request.outcome,
      code: request.code,
      http_status: request.httpStatus,
      provider_code: request.providerCode,
      input_tokens: request.inputTokens === null ? null : exactCount(request.inputTokens),
      output_tokens: request.outputTokens === null ? null : exactCount(request.outputTokens),
      named_wait_ms: request.namedWaitMs,
      claimed_at: request.claimedAt.toISOString(),
      ended_at: request.endedAt?.toISOString() ?? null,
    })),
    usage: runUsage(run, prices),
    ...('manifest' in run && { manifest: run.manifest }),
  };
}
