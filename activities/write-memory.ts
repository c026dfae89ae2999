// The memory line that a reply declared.

import { stageMemory } from '../prisma/store/rooms/memory';
import type { StepResult } from '../workflows/contract';
import type { ActivityDeps } from './deps';
import { notThisKind, executeStep, type StepInput } from './step';

/** Writes the declared memory line, at most once for all time. */
export function createWriteMemory({ db }: ActivityDeps) {
  return async (input: StepInput): Promise<StepResult> =>
    executeStep(db, input, async ({ draft, run: locked, runContext, action }) => {
      if (action.kind !== 'memory') throw notThisKind();
      const { category, content, tags, visibility } = action;
      const { memoryId } = stageMemory(draft, locked.roomId, {
        author: runContext.author,
        category,
        content,
        tags,
        visibility,
        runId: locked.id,
      });
      return { state: 'done', effectId: memoryId };
    });
}
