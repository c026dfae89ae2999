// A run's lanes as a picture. What it shows is also in the table beside it, which is what a screen reader reads.

import { LANES, layLanes, type Lane, type Mark } from './lanes';
import type { Timeline } from './resources';

const [WIDTH, LEFT, RIGHT, TOP, ROW, BAR] = [1000, 150, 45, 30, 34, 12] as const;
/** Spans of one lane that overlap are drawn below each other, this many deep. */
const DEPTH = 3;
const TICKS = 6;

export function LanesPicture({ timeline }: { timeline: Timeline }) {
  if (timeline.data.length === 0) return null;
  const { marks, place, from } = layLanes(timeline, timeline.state === 'open' ? Date.now() : undefined);
  const used = LANES.filter((lane) => lane !== 'other executions' || marks.some((mark) => mark.lane === lane));
  const x = (at: number): number => Math.round(LEFT + place(at) * (WIDTH - LEFT - RIGHT));
  const depths = depthsOf(marks, x);
  const heights = used.map(
    (lane) => ROW + BAR * Math.max(0, ...marks.map((m) => (m.lane === lane ? (depths.get(m) ?? 0) : 0))),
  );
  const tops = new Map<Lane, number>();
  let height: number = TOP;
  used.forEach((lane, i) => {
    tops.set(lane, height);
    height += heights[i] ?? ROW;
  });
  const ticks = ticksOf(timeline, x);
  return (
    <div class="scroll" role="region" aria-label="The run as lanes" tabindex={0}>
      <svg class="picture" viewBox={`0 0 ${WIDTH} ${height + 10}`} role="img" aria-label={spoken(marks, used)}>
        {ticks.map(({ at, place: left }) => (
          <>
            <line class="rule" x1={left} x2={left} y1={TOP - 8} y2={height} />
            <text class="soft middle" x={left} y={TOP - 14}>
              {elapsed(at - from)}
            </text>
          </>
        ))}
        {used.map((lane) => (
          <>
            <line class="rule" x1={0} x2={WIDTH} y1={tops.get(lane)} y2={tops.get(lane)} />
            <text x={4} y={(tops.get(lane) ?? 0) + 21}>
              {lane}
            </text>
          </>
        ))}
        {marks.map((mark) => (
          <MarkShape mark={mark} x={x} y={(tops.get(mark.lane) ?? 0) + 10 + BAR * (depths.get(mark) ?? 0)} />
        ))}
      </svg>
    </div>
  );
}

function MarkShape({ mark, x, y }: { mark: Mark; x: (at: number) => number; y: number }) {
  const left = x(mark.from);
  if (mark.to === null) {
    return (
      <circle class={`point ${mark.tone}`} cx={left} cy={y + BAR / 2} r={5}>
        <title>{mark.says}</title>
      </circle>
    );
  }
  const right = Math.max(x(mark.to), left + 3);
  // What went wrong is told apart by more than its colour: it ends in a cross.
  return (
    <g>
      <title>{mark.says}</title>
      <rect class={`span ${mark.tone}`} x={left} y={y} width={right - left} height={BAR} rx={2} />
      {mark.tone === 'bad' && (
        <>
          <line class="cross" x1={right - 5} x2={right + 5} y1={y - 1} y2={y + BAR + 1} />
          <line class="cross" x1={right - 5} x2={right + 5} y1={y + BAR + 1} y2={y - 1} />
        </>
      )}
    </g>
  );
}

function depthsOf(marks: readonly Mark[], x: (at: number) => number): Map<Mark, number> {
  const ends = new Map<string, number>();
  return new Map(
    marks.map((mark) => {
      for (let depth = 0; ; depth += 1) {
        const key = `${mark.lane} ${depth}`;
        const free = (ends.get(key) ?? -1) <= x(mark.from);
        if (!free && depth + 1 < DEPTH) continue;
        ends.set(key, mark.to === null ? x(mark.from) + 8 : x(mark.to) + 2);
        return [mark, depth];
      }
    }),
  );
}

/** A few times that are far enough apart to be read. */
function ticksOf(timeline: Timeline, x: (at: number) => number): { at: number; place: number }[] {
  const apart = (WIDTH - LEFT - RIGHT) / TICKS;
  const ticks: { at: number; place: number }[] = [];
  for (const at of timeline.data.map((entry) => Date.parse(entry.at))) {
    const last = ticks.at(-1);
    if (last === undefined || x(at) - last.place >= apart) ticks.push({ at, place: x(at) });
  }
  return ticks;
}

/** Time since the beginning, as short as a person says it. */
export function elapsed(ms: number): string {
  if (ms < 1_000) return `+${ms} ms`;
  if (ms < 120_000) return `+${(ms / 1_000).toFixed(1)} s`;
  if (ms < 7_200_000) return `+${Math.round(ms / 60_000)} min`;
  return `+${(ms / 3_600_000).toFixed(1)} h`;
}

function spoken(marks: readonly Mark[], used: readonly Lane[]): string {
  const counts = used.map((lane) => {
    const own = marks.filter((mark) => mark.lane === lane);
    const wrong = own.filter((mark) => mark.tone === 'bad').length;
    return `${lane}: ${own.length}${wrong === 0 ? '' : `, ${wrong} of them ended badly`}`;
  });
  return `The run in ${used.length} lanes. ${counts.join('; ')}. The table below tells each in words.`;
}
