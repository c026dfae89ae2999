// A chart with one stacked bar per day. The table below it shows the same numbers.

export interface Series {
  readonly name: string;
  /** One value per day. */
  readonly values: readonly number[];
}

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, LEGEND] = [900, 240, 70, 30, 16, 22] as const;
/** The number of bar colours in console.css. */
const TONES = 5;
const LEGEND_COLUMN = 150;

export function StackedBars({
  title,
  days,
  series,
}: {
  title: string;
  days: readonly string[];
  series: readonly Series[];
}) {
  const sums = days.map((_, i) => series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0));
  const highest = Math.max(...sums, 0);
  const columns = Math.floor((WIDTH - LEFT) / LEGEND_COLUMN);
  const legendHeight = Math.ceil(series.length / columns) * LEGEND;
  const plotHeight = HEIGHT - TOP - BOTTOM;
  const step = (WIDTH - LEFT) / days.length;
  const y = (value: number): number => TOP + plotHeight - (highest === 0 ? 0 : (value / highest) * plotHeight);
  return (
    <div class="scroll" role="region" aria-label={`${title}: chart`} tabindex={0}>
      <svg
        class="picture"
        viewBox={`0 0 ${WIDTH} ${HEIGHT + legendHeight}`}
        role="img"
        aria-label={`${title}: stacked bars of ${days.length} days. The table below has the numbers.`}
      >
        <line class="rule" x1={LEFT} x2={WIDTH} y1={y(0)} y2={y(0)} />
        <line class="rule" x1={LEFT} x2={WIDTH} y1={y(highest)} y2={y(highest)} />
        <text class="soft end" x={LEFT - 8} y={y(highest) + 4}>
          {highest}
        </text>
        <text class="soft end" x={LEFT - 8} y={y(0) + 4}>
          0
        </text>
        {days.map((day, i) => (
          <>
            {bars(series, i).map(({ name, value, below, tone }) => (
              <rect
                class={`bar-${tone}`}
                x={Math.round(LEFT + i * step + step * 0.15)}
                width={Math.max(2, Math.round(step * 0.7))}
                y={y(below + value)}
                height={y(below) - y(below + value)}
              >
                <title>{`${day}, ${name}: ${value}`}</title>
              </rect>
            ))}
            {(days.length <= 14 || i % 5 === 0) && (
              <text class="soft middle" x={LEFT + (i + 0.5) * step} y={HEIGHT - 10}>
                {day.slice(5)}
              </text>
            )}
          </>
        ))}
        {series.map(({ name }, i) => {
          const left = LEFT + (i % columns) * LEGEND_COLUMN;
          const top = HEIGHT + Math.floor(i / columns) * LEGEND;
          return (
            <>
              <rect class={`bar-${i % TONES}`} x={left} y={top} width={12} height={12} />
              <text x={left + 18} y={top + 10}>
                {name}
              </text>
            </>
          );
        })}
      </svg>
    </div>
  );
}

function bars(series: readonly Series[], day: number): { name: string; value: number; below: number; tone: number }[] {
  let below = 0;
  return series.flatMap(({ name, values }, i) => {
    const value = values[day] ?? 0;
    const bar = { name, value, below, tone: i % TONES };
    below += value;
    return value === 0 ? [] : [bar];
  });
}
