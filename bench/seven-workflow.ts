// The same work as a product run that only replies, in a straightforward design: seven activities with one concern each. It
// has the name of the product's workflow, so that the same dispatcher starts it.

import { defineSearchAttributeKey } from '@temporalio/common';
import { proxyActivities, setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import type { AgentRunInput, AgentRunResult } from '../workflows/contract';
import { RUN_ENDING, RUN_STATE } from '../workflows/search-attributes';
import type { SevenActivities } from './seven-activities';

const runEnding = defineSearchAttributeKey(RUN_ENDING, 'KEYWORD');
const runState = defineSearchAttributeKey(RUN_STATE, 'KEYWORD');

const once = { startToCloseTimeout: '10s', retry: { maximumAttempts: 1 } } as const;
const { claimMessage } = proxyActivities<SevenActivities>({ ...once, summary: 'claim' });
const { readRoom } = proxyActivities<SevenActivities>({ ...once, summary: 'read the room' });
const { claimModelRequest } = proxyActivities<SevenActivities>({ ...once, summary: 'claim the request' });
const { askModel } = proxyActivities<SevenActivities>({ ...once, heartbeatTimeout: '10s', summary: 'ask the model' });
const { storeReply } = proxyActivities<SevenActivities>({ ...once, summary: 'store the reply' });
const { postReply } = proxyActivities<SevenActivities>({ ...once, summary: 'post the reply' });
const { closeRun } = proxyActivities<SevenActivities>({ ...once, summary: 'close' });

export async function agentRun(input: AgentRunInput): Promise<AgentRunResult> {
  const claim = await claimMessage(input);
  if (claim.status !== 'granted') return { result: 'refused', why: claim.status };
  const { run } = claim;
  setCurrentDetails(`claimed · ${run}`);
  await readRoom({ run });
  const { number } = await claimModelRequest({ run });
  const result = await askModel({ run });
  await storeReply({ run, number, result });
  await postReply({ run });
  const ending = await closeRun({ run, reason: { kind: 'ended' } });
  upsertSearchAttributes([
    { key: runEnding, value: ending },
    { key: runState, value: 'closed' },
  ]);
  setCurrentDetails(`${ending} · ${run}`);
  return { result: 'ended', run, ending };
}
