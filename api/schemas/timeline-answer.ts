// Schema of a run's timeline.

import { z } from 'zod';
import { TIMELINE_KINDS, TIMELINE_SOURCES } from '../../prisma/store/runs/timeline';
import { ENDINGS, STEP_STATES } from '../../workflows/contract';
import { at, shownId } from './answers';

const entry = z.object({
  at,
  source: z.enum(TIMELINE_SOURCES),
  kind: z.enum(TIMELINE_KINDS),
  message: z.string(),
  facts: z.record(z.string(), z.union([z.string(), z.number(), z.null()])),
});

export const shownTimeline = z
  .object({
    run: shownId('run'),
    room: shownId('room'),
    agent: shownId('agent'),
    message: shownId('msg'),
    state: z.enum(['open', 'closed']),
    ending: z.enum(ENDINGS).nullable(),
    code: z.string().nullable(),
    history: z.object({
      state: z.enum(['read', 'forgotten', 'unreachable', 'not_configured']),
      message: z.string(),
    }),
    not_done: z.array(
      z.object({ step: z.string(), state: z.enum([...STEP_STATES, 'to_come']), code: z.string().nullable() }),
    ),
    data: z.array(entry),
  })
  .meta({ id: 'Timeline' });
