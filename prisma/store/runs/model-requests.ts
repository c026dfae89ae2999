// Model requests, each claimed before it is sent, so that a fourth request is never sent; and the reply, stored once.
//
//   in_flight → answered (a reply) · retry · busy · refused · failed (an unusable reply) · aborted · unknown

import { createHash } from 'node:crypto';
import { MODEL_REQUESTS_LIMIT, type DeclaredReply, type Ending, type Rights } from '../../../workflows/contract';
import { Prisma } from '../../generated/client';
import type { ModelProtocol } from '../../../workflows/policy/model-endpoint';
import { closeLockedRun, endUnanswered } from './run-closing';
import { RoomDraft } from '../rooms/room-draft';
import { ROSTER_RIGHTS } from '../rooms/roster';
import { Fenced } from '../db/errors';
import { GONE, lockMembershipAndRun, refuseOtherExecution, type RunContext } from './fence';
import { isOwn, lockOwnedRunRow, RUN_COLUMNS, type Execution, type LockedRun } from './locked-run';
import { readRelevant } from './relevance';
import { roomView, type NewestOfRoom, type RoomView } from './context-queries';
import type { Database } from '../db/database';
import { declareLock } from '../db/lock-order';
import { write, type SqlTx } from '../db/transaction';

/** The agent's model and its sealed key. */
export interface ModelTarget {
  readonly model: string | null;
  readonly keyId: string | null;
  readonly keyVersion: number | null;
  readonly protocol: ModelProtocol | null;
  readonly baseUrl: string | null;
  readonly sealedSecret: string | null;
  readonly ownerSupplied: boolean;
}

export interface RenderedContext {
  readonly system: string;
  readonly user: string;
}

export interface StoredReply {
  readonly reply: DeclaredReply;
  readonly sha256: string;
  readonly rights: Rights;
}

export type RequestClaim =
  /** Send this request, once. */
  | {
      readonly kind: 'send';
      readonly number: number;
      readonly limit: number;
      readonly target: ModelTarget;
      readonly context: RenderedContext;
    }
  | ({ readonly kind: 'reply' } & StoredReply)
  /** Another request cannot change the result, or no request is left. */
  | { readonly kind: 'settled' }
  /** The agent is no longer in the room, so the run was closed. */
  | { readonly kind: 'closed'; readonly ending: Ending };

export type RequestToSend = Extract<RequestClaim, { kind: 'send' }>;

/** How a request ended, as the ledger stores it. */
export interface RequestResult {
  readonly outcome: 'answered' | 'retry' | 'busy' | 'refused' | 'failed' | 'aborted';
  readonly code: string | null;
  readonly httpStatus: number | null;
  readonly providerCode: string | null;
  readonly namedWaitMs: number | null;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly reply: DeclaredReply | null;
}

/**
 * Claims the right to send one model request through the fence, and stores the context that all requests of the run send.
 *
 * An earlier request without an answer becomes `unknown`, and counts. `meanwhile` receives the request while the claim
 * commits, to prepare it; the request may be sent only after this function returns it. `meanwhile` must not throw.
 * @throws Fenced, Transient
 */
export async function claimRequest(
  db: Database,
  execution: Execution,
  runId: string,
  render: (view: RoomView) => { context: RenderedContext; manifest: Record<string, unknown> },
  meanwhile?: (request: RequestToSend) => void,
): Promise<RequestClaim> {
  const claim = await db.sqlTransaction(async (tx): Promise<RequestClaim | 'not_mine'> => {
    await lockMembershipAndRun(tx, execution, runId);
    const requesting = await loadRequestingRun(tx, execution, runId);
    if (!requesting) return 'not_mine';
    const { run, gone, target, last, view } = requesting;
    let { context } = requesting;
    if (run.reply !== null && run.rights !== null && run.replySha256 !== null) {
      return { kind: 'reply', reply: run.reply, sha256: run.replySha256, rights: run.rights };
    }
    if (run.state === 'closed') throw new Fenced('closed');
    if (gone !== null) {
      const draft = new RoomDraft(run.roomId);
      const ending = await closeLockedRun(tx, draft, run, { kind: 'cancelled' }, { by: 'room', why: gone });
      await draft.append(tx);
      return { kind: 'closed', ending };
    }
    const limit = target.ownerSupplied ? 1 : MODEL_REQUESTS_LIMIT;
    const number = (last?.number ?? 0) + 1;
    const mayAskAgain = last === null || ['retry', 'unknown', 'in_flight', 'aborted'].includes(last.outcome);
    if (number > limit || !mayAskAgain) {
      await tx.$executeRaw`${endUnanswered(runId)}`;
      return { kind: 'settled' };
    }
    let manifest: Record<string, unknown> | null = null;
    if (context === null) {
      if (view === null) throw new Error('a room is read for one run of one company');
      ({ context, manifest } = render({ ...view, ...(await readRelevant(tx, run, view)) }));
    }
    await write(tx)`
      WITH unanswered AS (
        ${endUnanswered(runId)}
      ), stored AS (
        UPDATE runs SET context = coalesce(context, ${manifest === null ? null : JSON.stringify(context)}::jsonb),
                        manifest = coalesce(manifest, ${manifest === null ? null : JSON.stringify(manifest)}::jsonb),
                        model = ${target.model}, model_key_id = ${target.keyId}, model_key_version = ${target.keyVersion}
        WHERE id = ${runId}
      )
      INSERT INTO model_requests (run_id, number) VALUES (${runId}, ${number})`;
    const request: RequestToSend = { kind: 'send', number, limit, target, context };
    // Runs after COMMIT is sent and before its answer is read.
    if (meanwhile) setImmediate(meanwhile, request);
    return request;
  });
  return claim === 'not_mine' ? refuseOtherExecution(db, runId) : claim;
}

/**
 * Records how a request ended and, with the first reply, the reply and the agent's rights at this moment.
 *
 * One statement. Returns the reply that the run has now, or null. A rejected key is marked in the version that the request
 * used (`sentWith`), even if the agent has another key now.
 * @throws Fenced, Transient
 */
export async function endRequest(
  db: Database,
  execution: Execution,
  runId: string,
  number: number,
  result: RequestResult,
  sentWith: Pick<ModelTarget, 'keyId' | 'keyVersion'>,
): Promise<StoredReply | null> {
  const reply = result.reply === null ? null : JSON.stringify(result.reply);
  const sha256 = reply === null ? null : createHash('sha256').update(reply).digest('hex');
  const keyRejected = result.code === 'key_rejected';
  const ending = await db.sqlTransaction(async (tx) => {
    declareLock(tx, 'run', 'model_key');
    return tx.$pipeline<{ reply: DeclaredReply | null; sha256: string | null; rights: Rights | null }>`
      WITH run AS (
        UPDATE runs SET
          reply = coalesce(reply, ${reply}::jsonb),
          reply_sha256 = coalesce(reply_sha256, ${sha256}),
          rights = CASE WHEN reply IS NULL AND ${reply}::text IS NOT NULL THEN (
            SELECT ${ROSTER_RIGHTS}
            FROM room_agents ra WHERE ra.room_id = runs.room_id AND ra.agent_id = runs.agent_id)
            ELSE rights END
        WHERE id = ${runId} AND temporal_run_id = ${execution.temporalRunId}
          AND workflow_id = ${execution.workflowId} AND state = 'open'
        RETURNING id, reply, reply_sha256, rights
      ), request AS (
        UPDATE model_requests SET outcome = ${result.outcome}, code = ${result.code},
          http_status = ${result.httpStatus}::int, provider_code = ${result.providerCode},
          named_wait_ms = ${result.namedWaitMs}::int, input_tokens = ${result.inputTokens}::bigint,
          output_tokens = ${result.outputTokens}::bigint, ended_at = clock_ms()
        FROM run WHERE run_id = run.id AND number = ${number}
      ), rejected AS (
        UPDATE model_keys SET rejected_version = version
        FROM run WHERE ${keyRejected} AND model_keys.id = ${sentWith.keyId}
          AND version = ${sentWith.keyVersion}::int
      )
      SELECT reply, reply_sha256 AS sha256, rights FROM run`;
  });
  const [ended] = await ending.rows;
  if (ended) {
    if (ended.reply === null || ended.sha256 === null || ended.rights === null) return null;
    return { reply: ended.reply, sha256: ended.sha256, rights: ended.rights };
  }
  return storedOrFenced(db, execution, runId);
}

// For a request whose update changed no row: the run is closed, or another execution owns it. A reply that was stored before
// the close is still valid.
async function storedOrFenced(db: Database, execution: Execution, runId: string): Promise<StoredReply> {
  const run = await db.sqlTransaction((tx) => lockOwnedRunRow(tx, execution, runId));
  if (!run) return refuseOtherExecution(db, runId);
  if (run.reply === null || run.replySha256 === null || run.rights === null) throw new Fenced('closed');
  return { reply: run.reply, sha256: run.replySha256, rights: run.rights };
}

interface RequestingRun {
  readonly run: LockedRun;
  readonly gone: RunContext['gone'];
  readonly target: ModelTarget;
  readonly last: LastRequest | null;
  /** The rendered context that all requests of the run send; null before the first request stores it. */
  readonly context: RenderedContext | null;
  /** The room at this moment, for the first request; null if the context is stored. */
  readonly view: NewestOfRoom | null;
}

async function loadRequestingRun(tx: SqlTx, execution: Execution, runId: string): Promise<RequestingRun | undefined> {
  const [row] = await tx.$queryRaw<
    (LockedRun &
      ModelTarget &
      Pick<RequestingRun, 'gone' | 'context' | 'view'> & {
        readonly number: number | null;
        readonly outcome: string | null;
      })[]
  >`
    SELECT ${RUN_COLUMNS}, ${GONE}, runs.context, agent.model, k.id AS "keyId", k.version AS "keyVersion", k.provider AS protocol,
           k.base_url AS "baseUrl", CASE WHEN k.revoked_at IS NULL THEN k.sealed_secret END AS "sealedSecret",
           coalesce(k.owner_supplied, false) AS "ownerSupplied", q.number, q.outcome,
           CASE WHEN runs.context IS NULL THEN (${roomView(OWN)}) END AS view
    FROM runs
    JOIN rooms r ON r.id = runs.room_id
    JOIN agents agent ON agent.id = runs.agent_id
    JOIN room_members m ON m.room_id = runs.room_id AND m.company_id = runs.company_id
    JOIN room_agents ra ON ra.room_id = runs.room_id AND ra.agent_id = runs.agent_id
    LEFT JOIN model_keys k ON k.id = agent.model_key_id
    LEFT JOIN LATERAL (
      SELECT number, outcome FROM model_requests WHERE run_id = runs.id ORDER BY number DESC LIMIT 1
    ) q ON true
    WHERE ${isOwn(runId, execution)}`;
  if (!row) return undefined;
  const {
    number,
    outcome,
    gone,
    context,
    view,
    model,
    keyId,
    keyVersion,
    protocol,
    baseUrl,
    sealedSecret,
    ownerSupplied,
  } = row;
  return {
    run: row,
    gone,
    context,
    target: { model, keyId, keyVersion, protocol, baseUrl, sealedSecret, ownerSupplied },
    last: number === null || outcome === null ? null : { number, outcome },
    view,
  };
}

const OWN = {
  roomId: Prisma.sql`runs.room_id`,
  agentId: Prisma.sql`runs.agent_id`,
  companyId: Prisma.sql`runs.company_id`,
  messageId: Prisma.sql`runs.message_id`,
};

interface LastRequest {
  readonly number: number;
  readonly outcome: string;
}
