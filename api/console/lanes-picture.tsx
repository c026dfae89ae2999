// Draws a run's lanes as SVG. The table below it has the same entries, for screen readers.

import { LANES, layLanes, type Lane, type Mark } from './lanes';
import type { Timeline } from './resources';

const [WIDTH, LEFT, RIGHT, TOP, ROW, BAR] = [1000, 150, 45, 30, 34, 12] as const;
/** How many overlapping spans of one lane are drawn below each other. */
const MAX_DEPTH = 3;
const TICKS = 6;

export function LanesPicture({ timeline }: { timeline: Timeline }) {
  if (timeline.data.length === 0) return null;
  const { marks, positionOf, from } = layLanes(timeline, timeline.state === 'open' ? Date.now() : undefined);
  const used = LANES.filter((lane) => lane !== 'other executions' || marks.some((mark) => mark.lane === lane));
  const x = (at: number): number => Math.round(LEFT + positionOf(at) * (WIDTH - LEFT - RIGHT));
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
      <svg class="picture" viewBox={`0 0 ${WIDTH} ${height + 10}`} role="img" aria-label={labelOf(marks, used)}>
        {ticks.map(({ at, x: left }) => (
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
        <title>{mark.label}</title>
      </circle>
    );
  }
  const right = Math.max(x(mark.to), left + 3);
  // A failure is marked by a cross as well as by its colour.
  return (
    <g>
      <title>{mark.label}</title>
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
        if (!free && depth + 1 < MAX_DEPTH) continue;
        ends.set(key, mark.to === null ? x(mark.from) + 8 : x(mark.to) + 2);
        return [mark, depth];
      }
    }),
  );
}

/** Times for the axis, far enough apart to be readable. */
function ticksOf(timeline: Timeline, x: (at: number) => number): { at: number; x: number }[] {
  const apart = (WIDTH - LEFT - RIGHT) / TICKS;
  const ticks: { at: number; x: number }[] = [];
  for (const at of timeline.data.map((entry) => Date.parse(entry.at))) {
    const last = ticks.at(-1);
    if (last === undefined || x(at) - last.x >= apart) ticks.push({ at, x: x(at) });
  }
  return ticks;
}

/** Time since the start of the run, in its largest useful unit. */
export function elapsed(ms: number): string {
  if (ms < 1_000) return `+${ms} ms`;
  if (ms < 120_000) return `+${(ms / 1_000).toFixed(1)} s`;
  if (ms < 7_200_000) return `+${Math.round(ms / 60_000)} min`;
  return `+${(ms / 3_600_000).toFixed(1)} h`;
}

function labelOf(marks: readonly Mark[], used: readonly Lane[]): string {
  const counts = used.map((lane) => {
    const own = marks.filter((mark) => mark.lane === lane);
    const failed = own.filter((mark) => mark.tone === 'bad').length;
    return `${lane}: ${own.length}${failed === 0 ? '' : `, ${failed} failed`}`;
  });
  return `The run in ${used.length} lanes. ${counts.join('; ')}. The table below has each entry.`;
}
