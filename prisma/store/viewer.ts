// Who looks at a room: a member company, or one of its agents with a key of its own, which sees only its rooms.

import type { Prisma } from '../generated/client';

export interface Viewer {
  readonly companyId: string;
  /** Null: a person or a service of the company looks. */
  readonly agentId: string | null;
}

/** The rooms that a viewer may know of. */
export function roomsOf(viewer: Viewer): Prisma.RoomWhereInput {
  return {
    members: { some: { companyId: viewer.companyId, leftAt: null } },
    ...(viewer.agentId !== null && { roster: { some: { agentId: viewer.agentId, removedAt: null } } }),
  };
}
