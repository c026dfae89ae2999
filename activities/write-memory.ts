// The memory line that a reply declared.

import { stageMemory } from '../prisma/store/memory';
import { actOnce } from '../prisma/store/runs';
import type { StepResult } from '../workflows/contract';
import { currentExecution, type ActivityDeps } from './deps';
import { stepResult, type StepInput } from './step';

/** Writes the declared memory line, at most once for all time. */
export function createWriteMemory({ db }: ActivityDeps) {
  return async ({ run, step }: StepInput): Promise<StepResult> =>
    stepResult(
      await actOnce(db, currentExecution(), run, step, async ({ draft, run: locked, around, reply }) => {
        if (reply.memory === null) throw new Error('the stored reply declares no memory line');
        const { memoryId } = stageMemory(draft, locked.roomId, {
          author: around.author,
          ...reply.memory,
          runId: locked.id,
        });
        return { state: 'done', effectId: memoryId };
      }),
    );
}
