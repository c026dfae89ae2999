// The summary that `npm run crash-lab` prints at the end.

import type { LabResult } from './lab';
import { OUTCOME_WORDS } from './outcome-words';
import { STEPS, WINDOWS } from './points';
import type { LabSettings } from './settings';
import type { Summary, WaySummary } from './summary';
import { WAY_FACTS } from './ways';

export function printSummary(summary: Summary, result: LabResult, say: (line: string) => void): void {
  say('');
  for (const line of describeSettings(result.settings)) say(line);
  say('');
  say('effects after a crash');
  say(table(rowsOf(OUTCOME_COLUMNS, summary)));
  say('');
  say('what continued the work, and the time after the kill');
  say(table(rowsOf(PICKUP_COLUMNS, summary)));
  say('');
  say('outcome by step and window: before · inside · between · after');
  say(table(gridOf(summary)));
  const legend = Object.values(OUTCOME_WORDS).map(({ glyph, word }) => `${glyph} ${word}`);
  say(`  ${legend.join('   ')}   - no such step, or not tested`);
  if (result.cost.size > 0) {
    say('');
    say('cost of a job without a crash');
    say(table(rowsOf(COST_COLUMNS, summary)));
  }
  say('');
  say(`${result.deaths} workers were killed by SIGKILL; ${result.discarded.length} job(s) were repeated.`);
  const late = result.observations.filter((each) => each.disturbed).length;
  if (late > 0) say(`${late} job(s) are counted although an attempt was late without a kill: try --attempt 8.`);
}

export function describeSettings({ jobs, perDeath, times }: LabSettings): string[] {
  const seconds = (ms: number): string => `${ms / 1_000} s`;
  return [
    `${jobs} job(s) per way and kill point, each with its own kill; one kill hits up to ${perDeath} jobs at different points.`,
    `Timeouts: an attempt of an activity ${seconds(times.attemptMs)}. The room's model call has ${seconds(times.modelMs)}, its heartbeat`,
    `timeout is ${seconds(times.heartbeatMs)}; its claim and its closing have 10 s. A workflow task 10 s (Temporal's own), a dead`,
    `worker's sticky queue 2 s. First pause before a retry 1 s (Temporal's own); of the room's model call 2 s.`,
  ];
}

export interface Column {
  readonly title: string;
  readonly of: (way: WaySummary) => string;
}

const NAME: Column = { title: 'way', of: ({ way }) => `${WAY_FACTS[way].number} ${WAY_FACTS[way].title}` };

export const OUTCOME_COLUMNS: readonly Column[] = [
  NAME,
  { title: 'jobs', of: (way) => String(way.jobs) },
  { title: 'finished', of: (way) => String(way.finished) },
  { title: 'acted twice', of: (way) => String(way.actedTwice) },
  { title: 'posted nothing', of: (way) => String(way.postedNone) },
  { title: 'lost steps', of: (way) => String(way.lostSteps) },
  { title: 'model asked again', of: (way) => String(way.modelAskedAgain) },
];

export const PICKUP_COLUMNS: readonly Column[] = [
  NAME,
  { title: 'attempt', of: (way) => String(way.pickedUpBy.attempt) },
  { title: 'replay', of: (way) => String(way.pickedUpBy.replay) },
  { title: 'ending', of: (way) => String(way.pickedUpBy.ending) },
  { title: 'nothing left', of: (way) => String(way.pickedUpBy.nothing_left) },
  { title: 'median', of: (way) => inSeconds(way.pickedUpMs?.median) },
  { title: 'most', of: (way) => inSeconds(way.pickedUpMs?.max) },
  { title: 'completed by the next message', of: (way) => completedOf(way) },
];

export const COST_COLUMNS: readonly Column[] = [
  NAME,
  { title: 'activities', of: ({ cost }) => String(cost?.activities ?? '-') },
  { title: 'history events', of: ({ cost }) => String(cost?.history_events ?? '-') },
  { title: 'statements', of: ({ cost }) => cost?.statements?.toFixed(1) ?? '-' },
  { title: 'wall-clock median ms', of: ({ cost }) => cost?.wall_ms.median.toFixed(0) ?? '-' },
  { title: 'least', of: ({ cost }) => cost?.wall_ms.least.toFixed(0) ?? '-' },
  { title: 'most', of: ({ cost }) => cost?.wall_ms.most.toFixed(0) ?? '-' },
];

export function rowsOf(columns: readonly Column[], { ways }: Summary): string[][] {
  return [columns.map((column) => column.title), ...ways.map((way) => columns.map((column) => column.of(way)))];
}

export function inSeconds(ms: number | undefined): string {
  return ms === undefined ? '-' : `${(ms / 1_000).toFixed(1)} s`;
}

function completedOf({ askedAgain: asked, completedLater: completed }: WaySummary): string {
  return asked === 0 ? '-' : `${completed} of ${asked}`;
}

export function gridOf({ ways, cells }: Summary): string[][] {
  const glyphs = (way: string, step: string): string =>
    WINDOWS.map((window) => {
      const found = cells.find((cell) => cell.way === way && cell.point === `${step}:${window}`);
      return found === undefined ? '-' : OUTCOME_WORDS[found.outcome].glyph;
    }).join(' ');
  return [
    ['way', ...STEPS],
    ...ways.map(({ way }) => [
      `${WAY_FACTS[way].number} ${WAY_FACTS[way].title}`,
      ...STEPS.map((step) => glyphs(way, step)),
    ]),
  ];
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]): string =>
    `  ${row.map((text, column) => text.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd();
  const rule = `  ${widths.map((width) => '─'.repeat(width)).join('  ')}`;
  return [line(rows[0] ?? []), rule, ...rows.slice(1).map(line)].join('\n');
}
