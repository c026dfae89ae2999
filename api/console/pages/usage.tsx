// What a company used, day by day: runs by ending, tokens, money, and wakes that came to nothing.

import type { Express } from 'express';
import { StackedBars, type Series } from '../bars';
import { Table, type Page } from '../page';
import { PATHS } from '../paths';
import type { Usage } from '../resources';
import { shows, type ConsoleDeps, type Visit } from '../visit';

const SPANS = [7, 14, 30] as const;
const DAY_MS = 86_400_000;

export function mountUsage(app: Express, deps: ConsoleDeps): void {
  app.get(PATHS.usage, shows(deps, usagePage));
}

interface Day {
  readonly day: string;
  readonly usage: Usage;
}

async function usagePage({ api, who, query }: Visit): Promise<Page> {
  const span = SPANS.find((days) => String(days) === query.get('days')) ?? 7;
  const path = `/v1/companies/${who.person.companyId}/usage`;
  const days = await Promise.all(
    lastDays(span).map(async ({ day, since, until }): Promise<Day> => {
      const usage = await api.get<Usage>(path, { since, ...(until !== null && { until }) });
      return { day, usage };
    }),
  );
  const endings = seriesOf(days, ({ runs }) => ({ ...runs.endings, ...(runs.open > 0 && { open: runs.open }) }));
  const suppressed = seriesOf(days, ({ wakes_suppressed: wakes }) => wakes.reasons);
  const tokens = seriesOf(days, ({ tokens: used }) => ({
    input: Number(used.input_tokens),
    output: Number(used.output_tokens),
  }));
  const names = days.map(({ day }) => day);
  return {
    title: 'Usage',
    body: (
      <>
        <p>What your company’s agents used, over all its rooms, by days in UTC. Today is not over.</p>
        <nav aria-label="How far back">
          {SPANS.map((one) => (
            <a href={`${PATHS.usage}?days=${one}`} aria-current={one === span ? 'page' : undefined}>
              {one} days
            </a>
          ))}
        </nav>
        <Counted title="Runs by ending" days={names} series={endings} none="No agent of yours ran in these days." />
        <Counted title="Tokens" days={names} series={tokens} none="No model was asked in these days." />
        <Money days={days} />
        <Counted
          title="Wakes that came to nothing, by reason"
          days={names}
          series={suppressed}
          none="Every wake became a run in these days."
        />
      </>
    ),
  };
}

/** The last days in UTC, the oldest first; the last one is today, and has no end yet. */
function lastDays(count: number): { day: string; since: string; until: string | null }[] {
  const today = Math.floor(Date.now() / DAY_MS);
  return Array.from({ length: count }, (_, i) => {
    const since = new Date((today - count + 1 + i) * DAY_MS);
    const until = i === count - 1 ? null : new Date(since.getTime() + DAY_MS).toISOString();
    return { day: since.toISOString().slice(0, 10), since: since.toISOString(), until };
  });
}

function seriesOf(days: readonly Day[], count: (usage: Usage) => Readonly<Record<string, number>>): Series[] {
  const counted = days.map(({ usage }) => count(usage));
  const names = [...new Set(counted.flatMap((each) => Object.keys(each)))].sort();
  return names
    .map((name) => ({ name: name.replaceAll('_', ' '), values: counted.map((each) => each[name] ?? 0) }))
    .filter(({ values }) => values.some((value) => value > 0));
}

function Counted(props: { title: string; days: readonly string[]; series: readonly Series[]; none: string }) {
  const { title, days, series, none } = props;
  return (
    <section>
      <h2>{title}</h2>
      {series.length === 0 ? (
        <p class="empty">{none}</p>
      ) : (
        <>
          <StackedBars title={title} days={days} series={series} />
          <Table caption={`${title}, by day`} head={['Day', ...series.map(({ name }) => name)]}>
            {days.map((day, i) => (
              <tr>
                <th scope="row">{day}</th>
                {series.map(({ values }) => (
                  <td class="number">{values[i]}</td>
                ))}
              </tr>
            ))}
          </Table>
        </>
      )}
    </section>
  );
}

function Money({ days }: { days: readonly Day[] }) {
  const currencies = [...new Set(days.flatMap(({ usage }) => Object.keys(usage.money.amounts ?? {})))].sort();
  const unpriced = days.reduce((sum, { usage }) => sum + usage.money.unpriced_requests, 0);
  const series = currencies.map((currency) => ({
    name: currency,
    values: days.map(({ usage }) => Number(usage.money.amounts?.[currency] ?? 0)),
  }));
  return (
    <section>
      <h2>Money</h2>
      {currencies.length === 0 && unpriced === 0 && <p class="empty">Nothing was spent in these days.</p>}
      {unpriced > 0 && (
        <p>
          {unpriced} requests have no price or no count of tokens: on their days no sum is known. Prices are set by
          whoever runs this deployment.
        </p>
      )}
      {currencies.length > 0 && (
        <>
          <StackedBars title="Money" days={days.map(({ day }) => day)} series={series} />
          <Table caption="Money, by day" head={['Day', ...currencies]}>
            {days.map(({ day, usage }) => (
              <tr>
                <th scope="row">{day}</th>
                {currencies.map((currency) => (
                  <td class="number">
                    {usage.money.amounts === null ? 'not known' : (usage.money.amounts[currency] ?? '0')}
                  </td>
                ))}
              </tr>
            ))}
          </Table>
        </>
      )}
    </section>
  );
}
