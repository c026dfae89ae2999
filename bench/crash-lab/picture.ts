// Draws `crash-lab.svg`: ways as rows, kill points as columns, and the outcome of each cell. It has its own background and uses
// only system fonts, so that it is readable in light and dark mode.

import type { Measured } from './report-markdown';
import { inSeconds } from './report-terminal';
import { STEPS, WINDOWS, type Step } from './points';
import type { Outcome } from './observation';
import type { Cell, WaySummary } from './summary';
import { WAY_FACTS } from './ways';

const CELL = 30;
const STEP_GAP = 12;
const LEFT = 318;
const TOP = 186;
const ROW = 62;
const RIGHT = 196;
const FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

const INK = '#1f2933';
const SOFT = '#5b6875';
const PAPER = '#fbfaf7';
const LINE = '#dcd8cf';

const STEP_TITLES: Readonly<Record<Step, string>> = {
  claim: 'claim',
  read: 'read',
  model: 'model call',
  post: 'post',
  memory: 'memory',
  task: 'task',
};

interface Look {
  readonly fill: string;
  readonly stroke: string;
  readonly word: string;
  /** Centred on 0, 0. Outcomes differ in shape, not only in colour. */
  readonly glyph: string;
}

const LOOKS: Readonly<Record<Outcome, Look>> = {
  finished: {
    fill: '#d8ecdf',
    stroke: '#2f7d55',
    word: 'everything done once',
    glyph: `<path d="M-6 0.5 L-2 5 L6.5 -5" fill="none" stroke="#2f7d55" stroke-width="2.4" stroke-linecap="round" stroke-linejoin="round"/>`,
  },
  acted_twice: {
    fill: '#d9482b',
    stroke: '#b23418',
    word: 'acted twice',
    glyph: `<text x="0" y="5" text-anchor="middle" font-size="14" font-weight="700" fill="#ffffff">2×</text>`,
  },
  posted_none: {
    fill: '#e4e2f3',
    stroke: '#5a52a3',
    word: 'posted nothing, run closed',
    glyph: `<circle r="6.2" fill="none" stroke="#5a52a3" stroke-width="2.2"/>`,
  },
  unfinished: {
    fill: '#e4e2f3',
    stroke: '#5a52a3',
    word: 'posted, not finished, run closed',
    glyph: `<circle r="6.2" fill="none" stroke="#5a52a3" stroke-width="2.2"/><path d="M0 -6.2 A6.2 6.2 0 0 0 0 6.2 Z" fill="#5a52a3"/>`,
  },
};

const STEP_WIDTH = WINDOWS.length * CELL;
const GRID_WIDTH = STEPS.length * STEP_WIDTH + (STEPS.length - 1) * STEP_GAP;
const WIDTH = LEFT + GRID_WIDTH + RIGHT + 28;

export function drawPicture(measured: Measured): string {
  const { summary, result } = measured;
  const bottom = TOP + summary.ways.length * ROW;
  const height = bottom + 128;
  const jobs = result.observations.length;
  const heading = 'One job, five ways of surviving a crash';
  const sub = `${result.deaths} worker processes killed by SIGKILL, ${jobs} jobs, counted in PostgreSQL after each job settled`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title desc" font-family="${FONT}">
<title id="title">${heading}</title>
<desc id="desc">${escape(describe(summary.ways))}</desc>
<rect x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="14" fill="${PAPER}" stroke="${LINE}"/>
<text x="28" y="46" font-size="23" font-weight="700" fill="${INK}">${heading}</text>
<text x="28" y="71" font-size="13.5" fill="${SOFT}">${escape(sub)}</text>
${header()}
${summary.ways.map((way, row) => drawRow(way, summary.cells, TOP + row * ROW)).join('\n')}
${legend(bottom + 34)}
<text x="28" y="${height - 22}" font-size="11.5" fill="${SOFT}">${escape(footer(measured))}</text>
</svg>
`;
}

function columnOf(step: number, window: number): number {
  return LEFT + step * (STEP_WIDTH + STEP_GAP) + window * CELL;
}

function header(): string {
  const steps = STEPS.map((step, index) => {
    const x = columnOf(index, 0);
    const middle = x + STEP_WIDTH / 2;
    const windows = WINDOWS.map((window, at) => {
      const cx = columnOf(index, at) + CELL / 2 + 4;
      return `<text transform="translate(${cx} ${TOP - 12}) rotate(-90)" font-size="11" fill="${SOFT}">${window}</text>`;
    }).join('');
    return (
      `<text x="${middle}" y="${TOP - 76}" text-anchor="middle" font-size="13.5" font-weight="600" fill="${INK}">${STEP_TITLES[step]}</text>` +
      `<line x1="${x + 3}" x2="${x + STEP_WIDTH - 3}" y1="${TOP - 68}" y2="${TOP - 68}" stroke="${LINE}" stroke-width="1.5"/>${windows}`
    );
  });
  const hint = `<text x="28" y="${TOP - 76}" font-size="12" fill="${SOFT}">the worker is killed …</text>`;
  return [hint, ...steps].join('\n');
}

function drawRow(way: WaySummary, cells: readonly Cell[], y: number): string {
  const facts = WAY_FACTS[way.way];
  const middle = y + ROW / 2;
  const [title, setting] = splitTitle(facts.title);
  const small = setting === undefined ? facts.short : `${setting} · ${facts.short}`;
  const label =
    `<line x1="28" x2="${WIDTH - 28}" y1="${y}" y2="${y}" stroke="${LINE}"/>` +
    `<text x="28" y="${middle + 8}" font-size="24" font-weight="700" fill="#cbc5b8">${facts.number}</text>` +
    `<text x="54" y="${middle - 3}" font-size="14.5" font-weight="600" fill="${INK}">${escape(title)}</text>` +
    `<text x="54" y="${middle + 15}" font-size="11.5" fill="${SOFT}">${escape(small)}</text>`;
  const drawn = STEPS.flatMap((step, stepIndex) =>
    WINDOWS.map((window, windowIndex) => {
      const cell = cells.find((each) => each.way === way.way && each.point === `${step}:${window}`);
      return drawCell(cell, columnOf(stepIndex, windowIndex), middle);
    }),
  );
  return [label, ...drawn, totals(way, LEFT + GRID_WIDTH + 22, middle)].join('\n');
}

// The text in brackets is drawn below the title in a smaller font.
function splitTitle(title: string): [string, string?] {
  const at = title.indexOf(' (');
  return at < 0 ? [title] : [title.slice(0, at), title.slice(at + 2, -1)];
}

function drawCell(cell: Cell | undefined, x: number, middle: number): string {
  const size = CELL - 4;
  if (cell === undefined) {
    const cx = x + CELL / 2;
    return `<line x1="${cx - 4}" x2="${cx + 4}" y1="${middle}" y2="${middle}" stroke="${LINE}" stroke-width="2" stroke-linecap="round"/>`;
  }
  const { fill, stroke, glyph } = LOOKS[cell.outcome];
  const left = x + 2;
  const top = middle - size / 2;
  const isMixed = cell.outcomeJobs < cell.jobs;
  const again =
    cell.modelAskedAgain > 0
      ? `<circle cx="${left + size - 1}" cy="${top + 1}" r="4" fill="#d99a1c" stroke="${PAPER}"/>`
      : '';
  const share = isMixed
    ? `<text x="${x + CELL / 2}" y="${middle + size / 2 + 11}" text-anchor="middle" font-size="9.5" fill="${SOFT}">${cell.outcomeJobs}/${cell.jobs}</text>`
    : '';
  return (
    `<rect x="${left}" y="${top}" width="${size}" height="${size}" rx="6" fill="${fill}" stroke="${stroke}" stroke-opacity="0.55"/>` +
    `<g transform="translate(${x + CELL / 2} ${middle})">${glyph}</g>${again}${share}`
  );
}

function totals(way: WaySummary, x: number, middle: number): string {
  const twice = way.actedTwice === 0 ? 'never acted twice' : `acted twice: ${way.actedTwice} of ${way.jobs}`;
  const left = way.unfinished === 0 ? 'always finished' : `unfinished: ${way.unfinished} of ${way.jobs}`;
  const after = way.pickedUpMs === null ? '' : `continued after ${inSeconds(way.pickedUpMs.median)} (median)`;
  const strong = (text: string, colour: string, y: number): string =>
    `<text x="${x}" y="${y}" font-size="12.5" font-weight="600" fill="${colour}">${text}</text>`;
  return (
    strong(twice, way.actedTwice === 0 ? LOOKS.finished.stroke : LOOKS.acted_twice.stroke, middle - 11) +
    strong(left, way.unfinished === 0 ? LOOKS.finished.stroke : LOOKS.unfinished.stroke, middle + 5) +
    `<text x="${x}" y="${middle + 21}" font-size="11.5" fill="${SOFT}">${after}</text>`
  );
}

function legend(y: number): string {
  let x = 28;
  const entries = (['finished', 'acted_twice', 'unfinished', 'posted_none'] as const).map((outcome) => {
    const { fill, stroke, word, glyph } = LOOKS[outcome];
    const drawn =
      `<rect x="${x}" y="${y - 13}" width="26" height="26" rx="6" fill="${fill}" stroke="${stroke}" stroke-opacity="0.55"/>` +
      `<g transform="translate(${x + 13} ${y})">${glyph}</g>` +
      `<text x="${x + 34}" y="${y + 4}" font-size="12.5" fill="${INK}">${word}</text>`;
    x += 34 + word.length * 7 + 26;
    return drawn;
  });
  const second =
    `<circle cx="41" cy="${y + 34}" r="4" fill="#d99a1c"/>` +
    `<text x="62" y="${y + 38}" font-size="12.5" fill="${INK}">the model was asked again: paid twice, not visible in the room</text>` +
    `<line x1="525" x2="533" y1="${y + 34}" y2="${y + 34}" stroke="#b9b4a8" stroke-width="2" stroke-linecap="round"/>` +
    `<text x="545" y="${y + 38}" font-size="12.5" fill="${INK}">no such step, or not tested</text>`;
  return [...entries, `<g>${second}</g>`].join('\n');
}

function describe(ways: readonly WaySummary[]): string {
  const sentences = ways.map((way) => {
    const { number, title } = WAY_FACTS[way.way];
    return `${number}. ${title}: of ${way.jobs} jobs ${way.actedTwice} acted twice, ${way.unfinished} were not finished, and ${way.postedNone} of these posted nothing.`;
  });
  return `A grid. Rows are ways of surviving a crash, columns are the points at which the worker was killed: before, inside, between and after each step. ${sentences.join(' ')}`;
}

function footer({ result, machine, versions }: Measured): string {
  return (
    `inside: written, COMMIT not sent · between: committed, no record or acknowledgement yet · ${result.settings.jobs} job(s) per cell, the worst is shown · ` +
    `Temporal ${versions['temporal_server']}, PostgreSQL ${versions['postgresql']}, ${machine.cores} cores`
  );
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
