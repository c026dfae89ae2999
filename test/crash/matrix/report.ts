// The results of the matrix, as Markdown, as JSON and as a summary for the terminal.

import { CRASH_FAULTS, ENDS_WITHIN_MS } from '../../support/crash-faults';
import { CRASH_POINTS, type CrashPoint } from '../../support/crash-points';
import { countCells, type CellResult, type Counts } from './cells';
import type { FaultResult, MatrixState } from './state';

export interface MatrixReport {
  readonly command: string;
  readonly machine: string;
  readonly state: MatrixState;
}

export function allCells(state: MatrixState): CellResult[] {
  return state.done.flatMap((each) => [...each.cells]);
}

export function secondsOf(state: MatrixState): number {
  return state.done.reduce((sum, each) => sum + each.seconds, 0);
}

/** One cause usually affects all cells of a fault. The report lists all cells. */
const SHOWN_LIMIT = 20;

const PROMISES = [
  'every effect is in the room at most once, whichever worker wrote it, and the agent has one claim and one run',
  'the ledger equals the room, `seq` has no gaps, and the room has one event for the end of the run',
  'there are at most three model requests, all in the ledger, and at most one is answered',
  `the run ended within ${ENDS_WITHIN_MS / 1_000} s of the fault, and under \`resume\` every step is done`,
  'no transaction is left open and no lock is held, and the worker then stops on request',
];

function formatCounts(counts: Counts): string {
  return `${counts.cells} cells: ${counts.clean} clean, ${counts.notClean} not clean, ${counts.notApplicable} not applicable`;
}

function describePoint(point: CrashPoint): string {
  const [activity, window] = point.split(':') as [keyof typeof CRASH_POINTS, string];
  return (CRASH_POINTS[activity] as Record<string, string>)[window] ?? '';
}

const secondsIn = (ms: number | null): string => (ms === null ? '' : (ms / 1_000).toFixed(1));

function slowest(result: FaultResult): number | null {
  const all = result.cells.flatMap((cell) =>
    cell.verdict === 'not_applicable' ? [] : [cell.outcome.endedAfterMs ?? 0],
  );
  return all.length === 0 ? null : Math.max(...all);
}

function rowOf(cell: CellResult): string {
  const prefix = `| \`${cell.point}\` | ${cell.policy} |`;
  if (cell.verdict === 'not_applicable') return `${prefix} | | | | | not applicable: ${cell.why} |`;
  const { outcome } = cell;
  const { replies, memory, responses, tasks } = outcome.effects;
  const ending = `${outcome.ending ?? 'none'}${outcome.code === null ? '' : ` (${outcome.code})`}`;
  const verdict =
    cell.verdict === 'clean' ? 'clean' : `**not clean**: ${outcome.why.join('; ').replaceAll('|', '\\|')}`;
  return [
    `${prefix} ${ending}`,
    `${replies} + ${memory} + ${responses} + ${tasks}`,
    `${outcome.requests.sent} (${outcome.requests.ledger.join(', ')})`,
    secondsIn(outcome.endedAfterMs),
    `${verdict}${cell.instead === null ? '' : `; ${cell.instead}`} |`,
  ].join(' | ');
}

export function toMarkdown({ command, machine, state }: MatrixReport): string {
  const cells = allCells(state);
  return [
    '# Crash matrix',
    '',
    `\`${command}\`, first started ${state.startedAt}${state.starts > 1 ? `, ${state.starts} starts` : ''}; ${machine}.`,
    '',
    `**${formatCounts(countCells(cells))}**, in ${secondsOf(state).toFixed(0)} s.`,
    '',
    'Every run declares a reply, a memory line, the answer to a task and a task for another agent. All runs are held at their',
    'points, each in its own room, when the fault happens. A cell is clean if',
    '',
    ...PROMISES.map((promise) => `- ${promise}`),
    '',
    'Effects are reply + memory line + task response + task sent. Requests are those that reached the provider, with their',
    'outcomes in the ledger. At `closeRun` points the provider refuses the request: only then does that activity close a run.',
    '',
    ...state.done.flatMap((result) => [
      `## ${result.fault}`,
      '',
      `${CRASH_FAULTS[result.fault]}. ${formatCounts(countCells(result.cells))}; ${result.seconds.toFixed(0)} s.`,
      '',
      '| point | policy | ending | effects | requests | ended after, s | |',
      '| --- | --- | --- | --- | --- | --- | --- |',
      ...result.cells.map(rowOf),
      '',
    ]),
    '## The points',
    '',
    ...[...new Set(cells.map((cell) => cell.point))].map((point) => `- \`${point}\`: ${describePoint(point)}`),
    '',
  ].join('\n');
}

export function toJson({ command, machine, state }: MatrixReport): unknown {
  return {
    command,
    machine,
    started_at: state.startedAt,
    starts: state.starts,
    seconds: secondsOf(state),
    counts: countCells(allCells(state)),
    faults: state.done.map(({ fault, seconds, cells }) => ({
      fault,
      what: CRASH_FAULTS[fault],
      seconds,
      counts: countCells(cells),
    })),
    cells: allCells(state),
  };
}

/** Prints the counts of each fault, and the cells that are not clean. */
export function printSummary(state: MatrixState, say: (line: string) => void): void {
  say('');
  say(
    `${'fault'.padEnd(18)}${['cells', 'clean', 'not clean', 'n/a', 'slowest', 'took'].map((h) => h.padStart(11)).join('')}`,
  );
  for (const result of state.done) {
    const { cells, clean, notClean, notApplicable } = countCells(result.cells);
    const row = [
      cells,
      clean,
      notClean,
      notApplicable,
      `${secondsIn(slowest(result))} s`,
      `${result.seconds.toFixed(0)} s`,
    ];
    say(`${result.fault.padEnd(18)}${row.map((value) => String(value).padStart(11)).join('')}`);
  }
  say('');
  say(`${formatCounts(countCells(allCells(state)))}, in ${secondsOf(state).toFixed(0)} s`);
  const notClean = allCells(state).flatMap((cell) => (cell.verdict === 'not_clean' ? [cell] : []));
  for (const cell of notClean.slice(0, SHOWN_LIMIT)) {
    say(`NOT CLEAN: ${cell.fault}, ${cell.point}, ${cell.policy}: ${cell.outcome.why.join('; ')}`);
  }
  if (notClean.length > SHOWN_LIMIT) say(`and ${notClean.length - SHOWN_LIMIT} more, in the report`);
}
