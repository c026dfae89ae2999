// The claim: the first activity of a run.

import { claimMessage as claim } from '../prisma/store/runs/claims';
import type { AgentRunInput, ClaimResult } from '../workflows/contract';
import { currentExecution, type ActivityDeps } from './deps';

/** Claims the message that woke the agent. May run any number of times; the claim is granted to one execution only. */
export function createClaimMessage({ db, timeouts, onClaim }: ActivityDeps) {
  return async (input: AgentRunInput): Promise<ClaimResult> => {
    const wake = { agentId: input.agent, messageId: input.message };
    const outcome = await claim(db, currentExecution(), wake, { timeLimitMs: timeouts.limitMs });
    switch (outcome.kind) {
      case 'granted':
        onClaim?.({ run: outcome.runId, wake: outcome.wakeId, room: outcome.roomId, ...input });
        return {
          status: 'granted',
          run: outcome.runId,
          onCrash: outcome.onCrash,
          t: { ...timeouts, limitMs: outcome.timeLimitMs },
        };
      case 'closed':
        return { status: 'closed', run: outcome.runId, ending: outcome.ending };
      case 'refused':
        return { status: 'refused', why: outcome.why, ...(outcome.runId === null ? {} : { run: outcome.runId }) };
    }
  };
}
