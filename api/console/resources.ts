// The types of the API's answers, inferred from the schemas that also make the OpenAPI document.

import type { z } from 'zod';
import type { shownMember, shownRoom, shownRosterEntry } from '../schemas/answers';
import type { shownFile } from '../schemas/file-answers';
import type {
  listedRun,
  shownEntry,
  shownEvent,
  shownHeldAction,
  shownMessage,
  shownTask,
  shownWake,
} from '../schemas/room-answers';
import type { shownTimeline } from '../schemas/timeline-answer';
import type { companyUsage } from '../schemas/usage-answers';

export type Room = z.infer<typeof shownRoom>;
export type Member = z.infer<typeof shownMember>;
export type RosterEntry = z.infer<typeof shownRosterEntry>;
export type RoomEvent = z.infer<typeof shownEvent>;
export type Message = z.infer<typeof shownMessage>;
export type Task = z.infer<typeof shownTask>;
export type MemoryEntry = z.infer<typeof shownEntry>;
export type Run = z.infer<typeof listedRun>;
export type Wake = z.infer<typeof shownWake>;
export type Timeline = z.infer<typeof shownTimeline>;
export type Usage = z.infer<typeof companyUsage>;

export type RoomFile = z.infer<typeof shownFile>;

export type HeldAction = z.infer<typeof shownHeldAction>;
