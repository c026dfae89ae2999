// The effect of a `memory` step: a memory entry is written.

import type { Effect, StepContext } from '../prisma/store/runs/fence';
import { stageMemory } from '../prisma/store/rooms/memory';

/** Stages the declared memory entry. */
export async function writeMemory({ draft, run, runContext, action }: StepContext<'memory'>): Promise<Effect> {
  const { category, content, tags, visibility } = action;
  const { memoryId } = stageMemory(draft, run.roomId, {
    author: runContext.author,
    category,
    content,
    tags,
    visibility,
    runId: run.id,
  });
  return { state: 'done', effectId: memoryId };
}
