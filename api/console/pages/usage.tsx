// A company's usage per day: runs by ending, tokens, money and suppressed wakes.

import type { Express } from 'express';
import { StackedBars, type Series } from '../bars';
import { Table, type Page } from '../page';
import { PATHS } from '../paths';
import type { Usage } from '../resources';
import { handleGet, type ConsoleDeps, type Visit } from '../visit';

const PERIODS = [7, 14, 30] as const;
const DAY_MS = 86_400_000;

export function mountUsage(app: Express, deps: ConsoleDeps): void {
  app.get(PATHS.usage, handleGet(deps, usagePage));
}

interface Day {
  readonly day: string;
  readonly usage: Usage;
}

async function usagePage({ api, user, query }: Visit): Promise<Page> {
  const period = PERIODS.find((days) => String(days) === query.get('days')) ?? 7;
  const path = `/v1/companies/${user.person.companyId}/usage`;
  const days = await Promise.all(
    lastDays(period).map(async ({ day, since, until }): Promise<Day> => {
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
        <p>Usage of your company’s agents in all rooms, per day in UTC. Today is not complete.</p>
        <nav aria-label="Period">
          {PERIODS.map((one) => (
            <a href={`${PATHS.usage}?days=${one}`} aria-current={one === period ? 'page' : undefined}>
              {one} days
            </a>
          ))}
        </nav>
        <CountsPerDay title="Runs by ending" days={names} series={endings} none="No runs in this period." />
        <CountsPerDay title="Tokens" days={names} series={tokens} none="No model requests in this period." />
        <Money days={days} />
        <CountsPerDay
          title="Suppressed wakes by reason"
          days={names}
          series={suppressed}
          none="No suppressed wakes in this period."
        />
      </>
    ),
  };
}

/** The last days in UTC, oldest first. The last day is today; its `until` is null. */
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

function CountsPerDay(props: { title: string; days: readonly string[]; series: readonly Series[]; none: string }) {
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
      {currencies.length === 0 && unpriced === 0 && <p class="empty">No costs in this period.</p>}
      {unpriced > 0 && (
        <p>
          {unpriced} requests have no price or no token count, so the cost of their days is unknown. The operator of
          this deployment sets the prices.
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
                    {usage.money.amounts === null ? 'unknown' : (usage.money.amounts[currency] ?? '0')}
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
