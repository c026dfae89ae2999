// All numbers of a run, for `--json FILE`.

import type { Measured } from './report-markdown';
import { stepOf, windowOf } from './points';
import type { Tally } from './summary';
import { WAY_FACTS } from './ways';

export function toJson({ summary, result, machine, versions, load, seconds, command }: Measured): unknown {
  const { settings } = result;
  return {
    machine,
    versions,
    settings: {
      command,
      jobs_per_cell: settings.jobs,
      jobs_per_death: settings.perDeath,
      cost_jobs: settings.costJobs,
      times_ms: settings.times,
      deaths: result.deaths,
      repeated: result.discarded.length,
      load_average_5_minutes: load,
      seconds: Math.round(seconds),
    },
    ways: summary.ways.map((way) => ({
      way: way.way,
      number: WAY_FACTS[way.way].number,
      title: WAY_FACTS[way.way].title,
      ...tallyJson(way),
      cost: way.cost,
    })),
    cells: summary.cells.map((cell) => ({
      way: cell.way,
      point: cell.point,
      step: stepOf(cell.point),
      window: windowOf(cell.point),
      outcome: cell.outcome,
      outcome_jobs: cell.outcomeJobs,
      ...tallyJson(cell),
    })),
    observations: result.observations,
    discarded: result.discarded,
  };
}

function tallyJson(tally: Tally) {
  return {
    jobs: tally.jobs,
    finished: tally.finished,
    acted_twice: tally.actedTwice,
    posted_none: tally.postedNone,
    lost_steps: tally.lostSteps,
    model_asked_again: tally.modelAskedAgain,
    most_model_requests: tally.mostModelRequests,
    picked_up_by: tally.pickedUpBy,
    picked_up_ms: tally.pickedUpMs,
    settled_ms: tally.settledMs,
    asked_again: tally.askedAgain,
    completed_later: tally.completedLater,
  };
}
