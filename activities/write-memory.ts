// The memory line that a reply declared.

import { stageMemory } from '../prisma/store/memory';
import type { StepResult } from '../workflows/contract';
import type { ActivityDeps } from './deps';
import { takeStep, type StepInput } from './step';

/** Writes the declared memory line, at most once for all time. */
export function createWriteMemory({ db }: ActivityDeps) {
  return async (input: StepInput): Promise<StepResult> =>
    takeStep(db, input, async ({ draft, run: locked, around, reply }) => {
      if (reply.memory === null) throw new Error('the stored reply declares no memory line');
      const { memoryId } = stageMemory(draft, locked.roomId, {
        author: around.author,
        ...reply.memory,
        runId: locked.id,
      });
      return { state: 'done', effectId: memoryId };
    });
}
