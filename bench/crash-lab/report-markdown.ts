// `crash-lab.md`: the article's three questions answered for each way, with the numbers of this run.

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
  /** Load average of the last five minutes, when all was counted. */
  readonly load: number;
  readonly seconds: number;
  readonly command: string;
}

export function toMarkdown(measured: Measured): string {
  const { summary, result } = measured;
  return [
    '# Five ways of surviving a crash',
    `The same small job of an AI agent (read the room, ask the model, post the reply, write one memory line, send one task) ran under five ways of surviving a crash, on a real Temporal and a real PostgreSQL. ${result.deaths} worker processes were killed by SIGKILL at named places, with ${result.observations.length} jobs under way, and what each job left was counted in PostgreSQL after it had settled.`,
    '![Ways as rows, kill points as columns](crash-lab.svg)',
    '## What a crash left',
    tableOf(rowsOf(OUTCOME_COLUMNS, summary)),
    '*Finished*: post, memory line and task are all there. *Acted twice*: one of them is there more than once. *Lost steps*: declared, not done, and nothing will do them. *Model asked again*: more than one request reached the model; no room sees that, a bill does.',
    '## The three questions',
    ...summary.ways.map(answers),
    '## What picked the work up',
    tableOf(rowsOf(PICKUP_COLUMNS, summary)),
    'The time is from the kill to the first thing that another worker began for the job (by Temporal’s history), or to the run’s ending. “An ending”: nothing went on; the run was closed and says so in the room. “Made good”: a person then asked what is left; a fresh run read the room and did what was not there, and nothing else. The scripted model that read it never errs; a real one may.',
    describeSettings(result.settings).join(' '),
    ...costPart(summary),
    '## Every cell',
    tableOf(gridOf(summary)),
    `Each group is ${WINDOWS.join(' · ')}. ${Object.values(OUTCOME_WORDS)
      .map(({ glyph, word }) => `${glyph} ${word}`)
      .join(', ')}; the worst of the cell’s jobs. - no such step, or not tried.`,
    WINDOWS.map((window) => `- **${window}**: ${WINDOW_MEANING[window]}`).join('\n'),
    'What a point means where a way’s code has another shape:',
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
    '## Which known systems work that way',
    tableOf([
      ['system', 'way', 'its documentation', 'source'],
      ...KNOWN_SYSTEMS.map(({ name: system, ways, says, source }) => [
        system,
        ways.length === 0 ? '-' : ways.map((way) => WAY_FACTS[way].number).join(', '),
        says,
        source.url === '' ? source.title : `[${source.title}](${source.url})`,
      ]),
    ]),
    'The lab runs all five on Temporal; it measures the ways, not those products.',
    '## What this does not show',
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
    `- **What picked the work up?** ${pickedUp(way)}`,
  ].join('\n');
}

function lost(way: WaySummary): string {
  const forgotten = `What the process held is gone in every way; in ${way.modelAskedAgain} jobs the model’s answer was part of it.`;
  if (way.unfinished === 0) return `Nothing that was declared: all ${way.jobs} jobs were finished. ${forgotten}`;
  const good =
    way.askedWhatIsLeft === 0
      ? ''
      : ` Asked what is left, a fresh run made good ${way.madeGood} of ${way.askedWhatIsLeft}.`;
  return `${way.lostSteps} steps of ${way.unfinished} of ${way.jobs} jobs were not done and nothing will do them; ${way.postedNone} jobs posted nothing.${good} ${forgotten}`;
}

function ranTwice(way: WaySummary): string {
  const model = `The model was asked again in ${way.modelAskedAgain} jobs, at most ${way.mostModelRequests} requests each.`;
  if (way.actedTwice === 0) return `No effect, in ${way.jobs} jobs. ${model}`;
  return `An effect, in ${way.actedTwice} of ${way.jobs} jobs. ${model}`;
}

function pickedUp(way: WaySummary): string {
  const { attempt, replay, ending, nothing_left: nothingLeft, nobody } = way.pickedUpBy;
  const parts = [
    [attempt, 'another attempt of the same activity'],
    [replay, 'the workflow, replayed on another worker'],
    [
      ending,
      'nothing did; the run was closed with an ending that the room shows, and the next message is what goes on',
    ],
    [nothingLeft, 'nothing was left to pick up, the run had ended before the kill'],
    [nobody, 'nobody'],
  ] as const;
  const said = parts.filter(([count]) => count > 0).map(([count, what]) => `${what} (${count})`);
  const times = way.pickedUpMs;
  const after =
    times === null ? '' : ` After ${inSeconds(times.median)} in the middle, ${inSeconds(times.max)} at most.`;
  const sentence = said.join('; ');
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.${after}`;
}

function costPart(summary: Summary): string[] {
  const jobs = summary.ways.find((way) => way.cost !== null)?.cost?.jobs;
  if (jobs === undefined) return [];
  return [
    '## What each way costs when nothing crashes',
    tableOf(rowsOf(COST_COLUMNS, summary)),
    `Per job, ${jobs} of each, one at a time, the ways in turn. Statements are those of the workers as PostgreSQL counts them, without BEGIN and COMMIT, less what idle workers send. Ways 4 and 5 are woken by the message through the outbox and the dispatcher, which is in their numbers; ways 1 to 3 are started by the lab directly.`,
  ];
}

function doneAgain({ discarded, observations }: LabResult): string {
  const why =
    'Jobs that say nothing about their kill point were done again: the worker died before they stood there, or an attempt was late without any kill.';
  if (discarded.length === 0) return `${why} There were none.`;
  const late = observations.filter((each) => each.disturbed).length;
  const still =
    late === 0
      ? ''
      : ` ${late} are counted above although an attempt was late each time: the machine was too slow, see --attempt.`;
  const twice = (isRoom: boolean): number =>
    discarded.filter((each) => isRoomWay(each.way) === isRoom && actedTwice(each)).length;
  const room = discarded.filter((each) => isRoomWay(each.way)).length;
  return `${why} There were ${discarded.length}. They are in no number above, but an attempt that is only late is retried as well: ${twice(false)} of ${discarded.length - room} acted twice in ways 1 to 3, ${twice(true)} of ${room} in ways 4 and 5, where one would fail the lab.${still}`;
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
    '- Every effect here is a row in one PostgreSQL. Ways 4 and 5 commit an effect and its record together, which an effect elsewhere (a mail, a payment) cannot be. There, way 5 needs a key that the other side honours, and only what way 4 does still never acts twice: a claim committed before the effect, and one attempt.',
    '- In way 3 effect and record lie in the same database and could share a transaction. They do not, because the record that is meant is one of an effect elsewhere.',
    '- A spare worker with its code loaded took over each time, as another worker of a deployment would. Where none stands by, the start of a process comes on top.',
    '- The scripted model answers the same message the same way each time. A real one, asked again in ways 1 and 3, may say something else the second time.',
    '- One moment of the room’s model call is no kill point here: the reply is stored in PostgreSQL and Temporal does not know. The test suite kills there (`callModel:reply_committed`).',
  ].join('\n');
}

function tableOf(rows: readonly (readonly string[])[]): string {
  const line = (row: readonly string[]): string => `| ${row.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`;
  const [head = [], ...body] = rows;
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...body.map(line)].join('\n');
}
