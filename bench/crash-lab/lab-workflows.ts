// The workflows of ways 1 to 3, bundled with `agentRun`, so that the workers of all ways run the same program.

import { proxyActivities } from '@temporalio/workflow';
import type { RecordActivities, ReplayActivities, TopActivities } from './lab-activities';
import type { LabInput } from './messages';

export { agentRun } from '../../workflows/agent-run';

/** Temporal's default retry policy: the first retry after 1 s, then doubled, without a limit. */
const attempts = (job: LabInput) => ({ startToCloseTimeout: job.attemptMs });

/** Way 1. */
export async function topJob(job: LabInput): Promise<void> {
  await proxyActivities<TopActivities>(attempts(job)).runFromTheTop(job);
}

/** Way 2. */
export async function replayJob(job: LabInput): Promise<void> {
  const activities = proxyActivities<ReplayActivities>(attempts(job));
  const context = await activities.readRoom({ job });
  const reply = await activities.askModel({ job, context });
  await activities.postText({ job, reply });
  await activities.writeLine({ job, reply });
  await activities.sendOn({ job, reply });
}

/** Way 3. */
export async function recordJob(job: LabInput): Promise<void> {
  await proxyActivities<RecordActivities>(attempts(job)).runWithRecords(job);
}
