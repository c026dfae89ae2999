// Reads wakes, as the companies in a room may see them. Wakes change in wakes.ts and claims.ts.

import type { SuppressedReason, WakeState } from '../../../workflows/contract';
import { Prisma, type Wake } from '../../generated/client';
import { NotFound } from '../db/errors';
import { publicReason } from '../eligibility/gates';
import { pageOf, type Page, type PageRequest } from '../db/paging';
import type { Reader } from '../db/transaction';
import { equals, listIdsInRooms, roomsOf, type Viewer } from '../access/viewer';

export interface WakeFilter {
  readonly room: string | undefined;
  readonly agent: string | undefined;
  readonly state: WakeState | undefined;
  /** Bounds of the creation time, which is that of the message: `since` is included, `until` is not. */
  readonly since: Date | undefined;
  readonly until: Date | undefined;
}

/** The wakes in the viewer's rooms, as the viewer may see them. */
export async function listWakes(
  reader: Reader,
  viewer: Viewer,
  filter: WakeFilter,
  page: PageRequest,
): Promise<Page<Record<string, unknown>>> {
  const conditions = [
    equals(Prisma.sql`t.agent_id`, filter.agent),
    equals(Prisma.sql`t.state`, filter.state),
    filter.since ? Prisma.sql`t.created_at >= ${filter.since}` : Prisma.sql`true`,
    filter.until ? Prisma.sql`t.created_at < ${filter.until}` : Prisma.sql`true`,
  ];
  const ids = await listIdsInRooms(reader, 'wakes', viewer, filter.room, Prisma.join(conditions, ' AND '), page);
  const wakes = await reader.wake.findMany({ where: { id: { in: ids } }, orderBy: { id: page.order } });
  const { rows, next } = pageOf(wakes, page, (wake) => wake.id);
  return { rows: await wakeResources(reader, viewer, rows), next };
}

/** One wake, as the viewer may see it. @throws NotFound also if the viewer may not see it */
export async function loadWake(reader: Reader, viewer: Viewer, wakeId: string): Promise<Record<string, unknown>> {
  const wake = await reader.wake.findFirst({ where: { id: wakeId, room: roomsOf(viewer) } });
  const [resource] = wake ? await wakeResources(reader, viewer, [wake]) : [];
  if (!resource) throw new NotFound('no such wake');
  return resource;
}

async function wakeResources(
  reader: Reader,
  viewer: Viewer,
  wakes: readonly Wake[],
): Promise<Record<string, unknown>[]> {
  const runs = await reader.run.findMany({
    where: { wakeId: { in: wakes.map((wake) => wake.id) } },
    select: { id: true, wakeId: true },
  });
  const runOf = new Map(runs.map((run) => [run.wakeId, run.id]));
  return wakes.map((wake) => {
    const own = wake.companyId === viewer.companyId;
    const reason = wake.reason as SuppressedReason | null;
    const shown = {
      id: wake.id,
      room: wake.roomId,
      company: wake.companyId,
      agent: wake.agentId,
      message: wake.messageId,
      state: wake.state,
      reason: reason === null || own ? reason : publicReason(reason),
      run: runOf.get(wake.id) ?? null,
    };
    if (!own) return shown;
    return {
      ...shown,
      task: wake.taskId,
      hop: wake.hop,
      created_at: wake.createdAt.toISOString(),
      delivered_at: wake.deliveredAt?.toISOString() ?? null,
      started_at: wake.startedAt?.toISOString() ?? null,
      claimed_at: wake.claimedAt?.toISOString() ?? null,
    };
  });
}
