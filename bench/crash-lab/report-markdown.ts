// Writes `crash-lab.md`: the article's three questions, answered for each way with the numbers of this run.

import type { Machine } from '../machine';
import type { LabResult } from './lab';
import { actedTwice } from './observation';
import { OUTCOME_WORDS } from './outcome-words';
import { WINDOW_MEANING, WINDOWS } from './points';
import {
  COST_COLUMNS,
  describeSettings,
  gridOf,
  inSeconds,
  OUTCOME_COLUMNS,
  PICKUP_COLUMNS,
  rowsOf,
} from './report-terminal';
import { KNOWN_SYSTEMS } from './sources';
import type { Cell, Summary, WaySummary } from './summary';
import { isRoomWay, WAY_FACTS, type Way } from './ways';

export interface Measured {
  readonly summary: Summary;
  readonly result: LabResult;
  readonly machine: Machine;
  readonly versions: Readonly<Record<string, string>>;
  /** Load average of the last five minutes at the end of the measurement. */
  readonly load: number;
  readonly seconds: number;
  readonly command: string;
}

export function toMarkdown(measured: Measured): string {
  const { summary, result } = measured;
  return [
    '# Five ways of surviving a crash',
    `The same small job of an AI agent (read the room, ask the model, post the reply, write one memory entry, send one task) ran under five ways of surviving a crash, on a real Temporal and a real PostgreSQL. ${result.deaths} worker processes were killed by SIGKILL at named points during ${result.observations.length} jobs. The effects of each job were counted in PostgreSQL after it settled.`,
    '![Ways as rows, kill points as columns](crash-lab.svg)',
    '## Effects after a crash',
    tableOf(rowsOf(OUTCOME_COLUMNS, summary)),
    '*Finished*: post, memory entry and task all exist. *Acted twice*: one of them exists more than once. *Lost steps*: declared steps that are not done and will never be done. *Model asked again*: more than one request reached the model, which costs money but is not visible in the room.',
    '## The three questions',
    ...summary.ways.map(answers),
    '## What continued the work',
    tableOf(rowsOf(PICKUP_COLUMNS, summary)),
    'The time is from the kill until another worker continued the job (from Temporal’s history) or until the run’s ending. “Ending”: the work did not continue; the run was closed, and the room shows its ending. “Completed by the next message”: a person then asked what is left; a new run read the room and did only what was missing. The scripted model makes no mistakes here; a real model may.',
    describeSettings(result.settings).join(' '),
    ...costPart(summary),
    '## Every cell',
    tableOf(gridOf(summary)),
    `The order in each cell is ${WINDOWS.join(' · ')}. ${Object.values(OUTCOME_WORDS)
      .map(({ glyph, word }) => `${glyph} ${word}`)
      .join(', ')}. Each cell shows its worst job; - means no such step, or not tested.`,
    WINDOWS.map((window) => `- **${window}**: ${WINDOW_MEANING[window]}`).join('\n'),
    'Meaning of the points in ways with another code structure:',
    summary.ways.map(({ way }) => `- **${name(way)}**: ${WAY_FACTS[way].mapping}`).join('\n'),
    'Cells that are not “everything done once”:',
    tableOf([
      [
        'way',
        'kill point',
        'jobs',
        'posts · memory · tasks',
        'finished',
        'acted twice',
        'lost steps',
        'model asked again',
      ],
      ...summary.cells.filter((cell) => cell.outcome !== 'finished').map((cell) => cellRow(cell, result)),
    ]),
    '## Known systems that work this way',
    tableOf([
      ['system', 'way', 'documentation', 'source'],
      ...KNOWN_SYSTEMS.map(({ name: system, ways, quote, source }) => [
        system,
        ways.length === 0 ? '-' : ways.map((way) => WAY_FACTS[way].number).join(', '),
        quote,
        source.url === '' ? source.title : `[${source.title}](${source.url})`,
      ]),
    ]),
    'The lab runs all five ways on Temporal. It measures the ways, not these products.',
    '## Limits of this measurement',
    limits(),
    '## How it was measured',
    `\`${measured.command}\`, ${measured.seconds.toFixed(0)} s, on ${measured.machine.cores} cores (${measured.machine.cpu}), ${measured.machine.memory_gb} GB, ${measured.machine.platform}, load average ${measured.load.toFixed(1)} at the end. ${Object.entries(
      measured.versions,
    )
      .map(([what, version]) => `${what} ${version}`)
      .join(', ')}.`,
    doneAgain(result),
    '',
  ].join('\n\n');
}

function name(way: Way): string {
  return `${WAY_FACTS[way].number}. ${WAY_FACTS[way].title}`;
}

function answers(way: WaySummary): string {
  return [
    `### ${name(way.way)}`,
    WAY_FACTS[way.way].how,
    `- **What was lost?** ${lost(way)}`,
    `- **What ran twice?** ${ranTwice(way)}`,
    `- **What continued the work?** ${pickedUp(way)}`,
  ].join('\n');
}

function lost(way: WaySummary): string {
  const forgotten = `The memory of the process is lost in every way; in ${way.modelAskedAgain} jobs this included the model’s answer.`;
  if (way.unfinished === 0) return `No declared step: all ${way.jobs} jobs were finished. ${forgotten}`;
  const good =
    way.askedAgain === 0
      ? ''
      : ` After a question what is left, a new run completed ${way.completedLater} of ${way.askedAgain}.`;
  return `${way.lostSteps} steps of ${way.unfinished} of ${way.jobs} jobs were not done and will never be done; ${way.postedNone} jobs posted nothing.${good} ${forgotten}`;
}

function ranTwice(way: WaySummary): string {
  const model = `The model was asked again in ${way.modelAskedAgain} jobs, at most ${way.mostModelRequests} requests each.`;
  if (way.actedTwice === 0) return `No effect, in ${way.jobs} jobs. ${model}`;
  return `An effect, in ${way.actedTwice} of ${way.jobs} jobs. ${model}`;
}

function pickedUp(way: WaySummary): string {
  const { attempt, replay, ending, nothing_left: nothingLeft, nothing } = way.pickedUpBy;
  const parts = [
    [attempt, 'another attempt of the same activity'],
    [replay, 'the workflow, replayed on another worker'],
    [ending, 'nothing: the run was closed with an ending that the room shows, and the next message can continue'],
    [nothingLeft, 'no work was left, because the run had ended before the kill'],
    [nothing, 'nothing before the time limit'],
  ] as const;
  const sentences = parts.filter(([count]) => count > 0).map(([count, what]) => `${what} (${count})`);
  const times = way.pickedUpMs;
  const after = times === null ? '' : ` Median ${inSeconds(times.median)}, at most ${inSeconds(times.max)}.`;
  const sentence = sentences.join('; ');
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.${after}`;
}

function costPart(summary: Summary): string[] {
  const jobs = summary.ways.find((way) => way.cost !== null)?.cost?.jobs;
  if (jobs === undefined) return [];
  return [
    '## Cost of each way without a crash',
    tableOf(rowsOf(COST_COLUMNS, summary)),
    `Per job, ${jobs} jobs of each way, one at a time, alternating. Statements are those of the workers, counted by PostgreSQL, without BEGIN and COMMIT and without the statements of idle workers. Ways 4 and 5 are started by the message through the outbox and the dispatcher, and their numbers include this; the lab starts ways 1 to 3 directly.`,
  ];
}

function doneAgain({ discarded, observations }: LabResult): string {
  const why =
    'Jobs without a valid observation were repeated: the worker died before they reached their point, or an attempt was late without a kill.';
  if (discarded.length === 0) return `${why} There were none.`;
  const late = observations.filter((each) => each.disturbed).length;
  const still =
    late === 0
      ? ''
      : ` ${late} are counted above although an attempt was late each time, because the machine was too slow (see --attempt).`;
  const twice = (isRoom: boolean): number =>
    discarded.filter((each) => isRoomWay(each.way) === isRoom && actedTwice(each)).length;
  const room = discarded.filter((each) => isRoomWay(each.way)).length;
  return `${why} There were ${discarded.length}. They are not part of the numbers above, but Temporal also retries an attempt that is only late: ${twice(false)} of ${discarded.length - room} acted twice in ways 1 to 3, ${twice(true)} of ${room} in ways 4 and 5, where one would fail the lab.${still}`;
}

function cellRow(cell: Cell, result: LabResult): string[] {
  const counts = result.observations
    .filter((each) => each.way === cell.way && each.point === cell.point)
    .map((each) => `${each.posts} · ${each.memory} · ${each.tasks}`);
  const distinct = [...new Set(counts)].map((text) => `${text} (×${counts.filter((other) => other === text).length})`);
  return [
    String(WAY_FACTS[cell.way].number),
    cell.point,
    String(cell.jobs),
    distinct.join(', '),
    String(cell.finished),
    String(cell.actedTwice),
    String(cell.lostSteps),
    String(cell.modelAskedAgain),
  ];
}

function limits(): string {
  return [
    '- Every effect here is a row in one PostgreSQL. Ways 4 and 5 commit an effect and its record together, which is not possible for an effect in another system (a mail, a payment). For such an effect, way 5 needs an idempotency key that the other system supports; way 4 (a claim before the effect, and one attempt) still never acts twice.',
    '- In way 3 effect and record are in the same database and could share a transaction. They do not, because the way models an effect in another system.',
    '- A spare worker with loaded code took over each time, like another worker of a deployment. Without a spare worker, add the start time of a process.',
    '- The scripted model answers the same message the same way each time. A real model that is asked again in ways 1 and 3 may answer differently the second time.',
    '- One moment of the room’s model call is not a kill point here: the reply is stored in PostgreSQL, but Temporal does not have the result yet. The test suite kills there (`callModel:reply_committed`).',
  ].join('\n');
}

function tableOf(rows: readonly (readonly string[])[]): string {
  const line = (row: readonly string[]): string => `| ${row.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`;
  const [head = [], ...body] = rows;
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...body.map(line)].join('\n');
}
