// Records one history per ending on a real server, for the present version: `npm run record-histories`. Commit what changed
// together with the change of the workflow that made it necessary, and never without saying why old histories still
// replay. Those of an earlier version are never recorded again: its runs may still be open.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { closeAsLost } from '../../prisma/store/runs';
import { PRESETS } from '../../prisma/store/roster';
import type { OnCrash, Rights, RunTimeouts } from '../../workflows/contract';
import { wakeWorkflowId } from '../../workflows/contract';
import { failingIn } from '../support/faults';
import { closedRun, startTestWorker } from '../support/runs';
import { answer, startScriptedModel, type ScriptedAnswer } from '../support/scripted-model-server';
import { createWorld } from '../support/world';
import { HISTORIES, VERSION } from './versions';

const FOLDER = join(HISTORIES, VERSION);

const EVERYTHING = answer.reply({
  reply: 'Done.',
  memory: { category: 'fact', content: 'It is done.', tags: [], visibility: 'shared' },
  tasks_to_send: [{ to: 'scout', goal: 'Check it.', acceptance_criteria: [], priority: 'normal', deadline: null }],
});

interface Recording {
  readonly name: string;
  readonly answers: readonly ScriptedAnswer[];
  readonly ending: string;
  readonly onCrash?: OnCrash;
  readonly rights?: Rights;
  readonly failIn?: string;
  readonly timeouts?: Partial<RunTimeouts>;
  readonly cancel?: boolean;
  readonly terminate?: boolean;
}

const RECORDINGS: readonly Recording[] = [
  { name: 'replied', answers: [answer.reply('Hello.')], ending: 'replied' },
  { name: 'replied-with-memory-and-task', answers: [EVERYTHING], ending: 'replied' },
  {
    name: 'replied-at-the-second-request',
    answers: [answer.error(503, null), answer.reply('Hello.')],
    ending: 'replied',
  },
  { name: 'silent', answers: [answer.reply({ reply: null })], ending: 'silent' },
  { name: 'refused-by-the-provider', answers: [answer.error(401, 'invalid_api_key')], ending: 'refused' },
  { name: 'busy', answers: [answer.error(429, null, { 'retry-after': '60' })], ending: 'busy' },
  { name: 'failed-reply-invalid', answers: [answer.reply('{"reply": 7}')], ending: 'failed' },
  { name: 'not-allowed', answers: [EVERYTHING], ending: 'not_allowed', rights: PRESETS.supervised },
  { name: 'stopped-at-the-reply', answers: [EVERYTHING], ending: 'failed', failIn: 'postReply' },
  { name: 'partial', answers: [EVERYTHING], ending: 'partial', failIn: 'writeMemory' },
  {
    name: 'resumed-and-timed-out',
    answers: [EVERYTHING],
    ending: 'timed_out',
    onCrash: 'resume',
    failIn: 'writeMemory',
    timeouts: { limitMs: 4_000 },
  },
  { name: 'cancelled', answers: [answer.hold()], ending: 'cancelled', cancel: true },
  { name: 'lost', answers: [answer.hold()], ending: 'lost', terminate: true },
];

test.each(RECORDINGS)('records $name', async (recording) => {
  const model = await startScriptedModel();
  const world = await createWorld({
    modelUrl: model.url,
    onCrash: recording.onCrash ?? 'stop',
    rights: recording.rights ?? PRESETS.autonomous,
  });
  model.script(...recording.answers);
  const unreachable = (): Error => Object.assign(new Error('gone'), { code: 'ECONNRESET' });
  const worker = await startTestWorker(world, {
    taskQueue: 'durable-room',
    identity: 'worker',
    ...(recording.timeouts === undefined ? {} : { timeouts: recording.timeouts }),
    ...(recording.failIn === undefined ? {} : { deps: { db: failingIn(world.db, recording.failIn, unreachable) } }),
  });
  try {
    const posted = await world.post('@scribe please');
    const workflowId = wakeWorkflowId(world.scribe.id, posted.messageId);
    if (recording.cancel) {
      await model.waitForRequests(1);
      await worker.client.workflow.getHandle(workflowId).cancel();
    }
    if (recording.terminate) {
      await model.waitForRequests(1);
      await worker.client.workflow.getHandle(workflowId).terminate('by hand');
      const { id } = await world.db.run.findFirstOrThrow({ where: { messageId: posted.messageId } });
      await closeAsLost(world.db, id);
    }
    const run = await closedRun(world.db, posted.messageId, world.scribe.id);
    expect(run.ending).toBe(recording.ending);
    const handle = worker.client.workflow.getHandle(workflowId, run.temporalRunId as string);
    if (!recording.terminate) await handle.result();
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(join(FOLDER, `${recording.name}.json`), `${historyToJSON(await handle.fetchHistory())}\n`);
  } finally {
    await worker.stop();
    await world.close();
    await model.stop();
  }
});
