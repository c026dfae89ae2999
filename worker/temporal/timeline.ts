// The timeline of a run: one list in time order of the ledger, the room, and the history if Temporal still has it. Both
// GET /v1/runs/{run}/timeline and `durable-room explain` use it.

import { ledgerEntries, loadTimelineRun, stepsNotDone, type TimelineEntry } from '../../prisma/store/runs/timeline';
import type { Reader } from '../../prisma/store/db/transaction';
import type { Viewer } from '../../prisma/store/access/viewer';
import type { HistoryReading, RunHistories } from './histories';

export interface Timeline {
  readonly resource: Record<string, unknown>;
  /** For commands that need the history itself. */
  readonly reading: HistoryReading;
}

/**
 * Loads the timeline of a run of the viewer's company; a null viewer is the operator and sees every run. If Temporal has
 * forgotten the run or does not answer, the timeline comes from the ledger alone and its `history` field explains that.
 * @throws NotFound if there is no such run, or if it belongs to another company
 */
export async function loadTimeline(
  reader: Reader,
  histories: RunHistories,
  viewer: Viewer | null,
  runId: string,
): Promise<Timeline> {
  const run = await loadTimelineRun(reader, viewer, runId);
  const reading = await histories.read(run);
  // Read again after the history, so that a step in the history is in the ledger too.
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
      return `includes Temporal's history: ${reading.events} events, without successful workflow tasks`;
    case 'forgotten':
      return 'Temporal no longer has this execution (retention, deletion): this timeline is from the ledger alone';
    case 'unreachable':
      return 'Temporal does not answer: this timeline is from the ledger alone; try again later';
    case 'not_configured':
      return 'no Temporal is configured: this timeline is from the ledger alone';
  }
}
