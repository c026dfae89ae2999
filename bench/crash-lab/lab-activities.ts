// The activities of ways 1 to 3. The ways use the same five steps and differ in what they record.

import type { ActivityDeps } from '../../activities';
import type { Database } from '../../prisma/store/db/database';
import { createJobSteps } from './job-steps';
import type { LabContext, LabInput, LabReply } from './messages';
import type { Point, Step } from './points';
import { currentWorkflowId, type Pass } from './traps';

export type TopActivities = ReturnType<typeof createTopActivities>;
export type ReplayActivities = ReturnType<typeof createReplayActivities>;
export type RecordActivities = ReturnType<typeof createRecordActivities>;

/** Way 1: the whole job in one activity, without records. */
export function createTopActivities(deps: ActivityDeps, pass: Pass) {
  const steps = createJobSteps(deps, pass);
  return {
    runFromTheTop: async (job: LabInput): Promise<void> => {
      const workflowId = currentWorkflowId();
      await pass('read:before', workflowId);
      const context = await steps.read(job);
      await pass('read:after', workflowId);
      const reply = await steps.ask(job, context);
      await pass('model:after', workflowId);
      await pass('post:before', workflowId);
      await steps.post(job, reply);
      await pass('post:after', workflowId);
      await pass('memory:before', workflowId);
      await steps.remember(job, reply);
      await pass('memory:after', workflowId);
      await pass('task:before', workflowId);
      await steps.send(job, reply);
    },
  };
}

/** Way 2: one activity per step. Temporal stores the result of each activity that returned. */
export function createReplayActivities(deps: ActivityDeps, pass: Pass) {
  const steps = createJobSteps(deps, pass);
  return {
    readRoom: async ({ job }: { job: LabInput }): Promise<LabContext> => {
      await pass('read:before', currentWorkflowId());
      return steps.read(job);
    },
    askModel: ({ job, context }: { job: LabInput; context: LabContext }): Promise<LabReply> => steps.ask(job, context),
    postText: async ({ job, reply }: { job: LabInput; reply: LabReply }): Promise<void> => {
      await pass('post:before', currentWorkflowId());
      await steps.post(job, reply);
    },
    writeLine: async ({ job, reply }: { job: LabInput; reply: LabReply }): Promise<void> => {
      await pass('memory:before', currentWorkflowId());
      await steps.remember(job, reply);
    },
    sendOn: async ({ job, reply }: { job: LabInput; reply: LabReply }): Promise<void> => {
      await pass('task:before', currentWorkflowId());
      await steps.send(job, reply);
    },
  };
}

/** Way 3: as way 1, with a record after each effect. The record is checked before the effect. */
export function createRecordActivities(deps: ActivityDeps, pass: Pass) {
  const steps = createJobSteps(deps, pass);
  const { db } = deps;
  /** Returns the recorded result of a step. Without a record, executes the step and then records it in a second transaction. */
  const once = async <T>(job: LabInput, step: Step, work: () => Promise<T>): Promise<T> => {
    const recorded = await findRecord<T>(db, job.messageId, step);
    if (recorded !== undefined) return recorded;
    const value = await work();
    await writeRecord(db, job.messageId, step, value);
    await pass(`${step}:after`, currentWorkflowId());
    return value;
  };
  return {
    runWithRecords: async (job: LabInput): Promise<void> => {
      const workflowId = currentWorkflowId();
      await pass('read:before', workflowId);
      const context = await steps.read(job);
      await pass('read:after', workflowId);
      const reply = await once(job, 'model', () => steps.ask(job, context));
      await pass('post:before', workflowId);
      await once(job, 'post', () => steps.post(job, reply));
      await pass('memory:before', workflowId);
      await once(job, 'memory', () => steps.remember(job, reply));
      await pass('task:before', workflowId);
      await once(job, 'task', () => steps.send(job, reply));
    },
  };
}

/** The lab creates this table in the database of way 3. */
export const RECORDS_TABLE = `
  CREATE TABLE lab_records (job text NOT NULL, step text NOT NULL, value jsonb, PRIMARY KEY (job, step))`;

async function findRecord<T>(db: Database, job: string, step: Step): Promise<T | undefined> {
  const rows = await db.$queryRaw<{ value: T }[]>`SELECT value FROM lab_records WHERE job = ${job} AND step = ${step}`;
  return rows[0]?.value;
}

async function writeRecord(db: Database, job: string, step: Step, value: unknown): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.$executeRaw`
      INSERT INTO lab_records (job, step, value) VALUES (${job}, ${step}, ${JSON.stringify(value ?? null)}::jsonb)`;
  });
}

const ACKNOWLEDGED: Readonly<Record<string, Point>> = {
  runFromTheTop: 'task:after',
  readRoom: 'read:after',
  askModel: 'model:after',
  postText: 'post:after',
  writeLine: 'memory:after',
  sendOn: 'task:after',
};

/** The kill point after Temporal stored this activity's result and before the next command; undefined if there is none. */
export function acknowledgedPoint(activity: string): Point | undefined {
  return ACKNOWLEDGED[activity];
}
