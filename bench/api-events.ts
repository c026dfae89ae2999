// Throughput of the events route: messages without addressees, single and in batches of 100, to one room and to 100 rooms.

import type { BenchEnvironment } from './environment';
import type { Progress } from './progress';
import { between, readStatements } from './statements';
import type { Sides } from './sides';
import { round, spreadOf, sum, type Spread } from './statistics';
import { cpuMsOf, cpuMsOfPostgres } from './cpu';

const TEXT = 'The plan for Tuesday is complete.';
const BATCH = 100;
const ROOMS = 100;

/** Writes to one room wait for each other; writes to different rooms do not. */
const CASES = [
  { rooms: 1, batch: 1, concurrency: 1 },
  { rooms: 1, batch: 1, concurrency: 16 },
  { rooms: ROOMS, batch: 1, concurrency: 16 },
  { rooms: 1, batch: BATCH, concurrency: 4 },
  { rooms: ROOMS, batch: BATCH, concurrency: 4 },
] as const;

export interface ApiEvents {
  readonly rooms: number;
  readonly batch: number;
  readonly concurrency: number;
  readonly events_per_second: number;
  readonly answer_ms: Spread;
  readonly statements_per_request: number;
  readonly cpu_ms_per_event: { readonly api: number | null; readonly postgres: number | null };
  /** Events per second if the API and PostgreSQL shared one core. */
  readonly events_per_second_per_core: number | null;
}

export async function measureApiEvents(
  environment: BenchEnvironment,
  sides: Sides,
  forMs: number,
  progress: Progress,
): Promise<ApiEvents[]> {
  const rooms = await sides.ours.room.openMore(ROOMS);
  const measured: ApiEvents[] = [];
  for (const { rooms: count, batch, concurrency } of CASES) {
    progress.begin(`API events, ${count} rooms, ${batch} per request, ${concurrency} concurrent requests`);
    const poster = await sides.ours.room.createPoster();
    if (poster === null) throw new Error('no API to post to');
    const used = rooms.slice(0, count);
    let sent = 0;
    const post = (): Promise<void> => poster.postMany(used[sent++ % used.length] as string, TEXT, batch);
    await Promise.all(Array.from({ length: concurrency * 5 }, post));
    const statements = await readStatements(sides.ours.sql, 'bench_api');
    const cpu = { api: cpuMsOf(sides.api.pid), postgres: cpuMsOfPostgres(environment.postgresPid) };
    const answers: number[] = [];
    const startedAt = performance.now();
    const client = async (): Promise<void> => {
      while (performance.now() - startedAt < forMs) {
        const sentAt = performance.now();
        await post();
        answers.push(performance.now() - sentAt);
        progress.at(`${answers.length * batch} events`);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, client));
    const seconds = (performance.now() - startedAt) / 1_000;
    const events = answers.length * batch;
    const per = (from: number | null, to: number | null): number | null =>
      from === null || to === null ? null : (to - from) / events;
    const api = per(cpu.api, cpuMsOf(sides.api.pid));
    const postgres = per(cpu.postgres, cpuMsOfPostgres(environment.postgresPid));
    const executed = between(statements, await readStatements(sides.ours.sql, 'bench_api'));
    measured.push({
      rooms: count,
      batch,
      concurrency,
      events_per_second: round(events / seconds),
      answer_ms: spreadOf(answers),
      statements_per_request: round(sum(executed.map((statement) => statement.calls)) / answers.length),
      cpu_ms_per_event: { api: api && round(api), postgres: postgres && round(postgres) },
      events_per_second_per_core: api === null || postgres === null ? null : round(1_000 / (api + postgres)),
    });
  }
  return measured;
}
