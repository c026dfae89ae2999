// One run as one list in time order: the ledger, the room, and the history where Temporal still has it. What
// GET /v1/runs/{run}/timeline answers and `npm run explain` prints is made here, once.

import { ledgerEntries, loadTimelineRun, stepsNotDone, type TimelineEntry } from '../../prisma/store/runs/timeline';
import type { Reader } from '../../prisma/store/db/transaction';
import type { Viewer } from '../../prisma/store/access/viewer';
import type { HistoryReading, RunHistories } from './histories';

export interface Timeline {
  readonly resource: Record<string, unknown>;
  /** For the commands that need the history itself. */
  readonly reading: HistoryReading;
}

/**
 * The timeline of a run of the viewer's own company; null is whoever runs the deployment. From the ledger alone, and
 * saying so, where Temporal has forgotten the run or does not answer.
 * @throws NotFound, to other companies as well
 */
export async function loadTimeline(
  reader: Reader,
  histories: RunHistories,
  viewer: Viewer | null,
  runId: string,
): Promise<Timeline> {
  const run = await loadTimelineRun(reader, viewer, runId);
  const reading = await histories.read(run);
  // Read after the history: what a step left in both is in both.
  const settled = await loadTimelineRun(reader, viewer, runId);
  const ledger = await ledgerEntries(reader, settled);
  const history = reading.state === 'read' ? reading.entries : [];
  const entries = [...ledger, ...history].sort((a, b) => a.at.getTime() - b.at.getTime());
  return {
    reading,
    resource: {
      run: run.id,
      room: run.roomId,
      agent: run.agentId,
      message: run.messageId,
      state: settled.state,
      ending: settled.ending,
      code: settled.code,
      history: { state: reading.state, message: describeReading(reading) },
      not_done: stepsNotDone(settled),
      data: entries.map(entryResource),
    },
  };
}

function entryResource({ at, source, kind, message, facts }: TimelineEntry): Record<string, unknown> {
  return { at: at.toISOString(), source, kind, message, facts };
}

function describeReading(reading: HistoryReading): string {
  switch (reading.state) {
    case 'read':
      return `Temporal's history is part of this: ${reading.events} events, less the workflow tasks that went well`;
    case 'forgotten':
      return 'Temporal does not know this execution any more (retention, deletion): this is from the ledger alone';
    case 'unreachable':
      return 'Temporal does not answer: this is from the ledger alone, ask again later';
    case 'not_configured':
      return 'no Temporal is configured here: this is from the ledger alone';
  }
}
