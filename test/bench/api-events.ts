// What the door takes: messages that address nobody, posted one by one to one room, at several numbers of clients at once.

import type { Ground } from './ground';
import type { Progress } from './progress';
import { between, readStatements } from './statements';
import type { Sides } from './sides';
import { round, spreadOf, sum, type Spread } from './statistics';
import { cpuMsOf, cpuMsOfPostgres } from './cpu';

const TEXT = 'The plan for Tuesday is complete.';

export interface ApiEvents {
  readonly concurrency: number;
  readonly events_per_second: number;
  readonly answer_ms: Spread;
  readonly statements_per_event: number;
  readonly cpu_ms_per_event: { readonly api: number | null; readonly postgres: number | null };
}

export async function measureApiEvents(
  ground: Ground,
  sides: Sides,
  concurrencies: readonly number[],
  forMs: number,
  progress: Progress,
): Promise<ApiEvents[]> {
  const measured: ApiEvents[] = [];
  for (const concurrency of concurrencies) {
    progress.begin(`API events, ${concurrency} at once`);
    const poster = await sides.ours.room.createPoster();
    if (poster === null) throw new Error('no API to post to');
    await Promise.all(Array.from({ length: concurrency * 5 }, () => poster.post(TEXT)));
    const statements = await readStatements(sides.ours.sql, 'bench_api');
    const cpu = { api: cpuMsOf(sides.api.pid), postgres: cpuMsOfPostgres(ground.postgresPid) };
    const answers: number[] = [];
    const startedAt = performance.now();
    const client = async (): Promise<void> => {
      while (performance.now() - startedAt < forMs) {
        const askedAt = performance.now();
        await poster.post(TEXT);
        answers.push(performance.now() - askedAt);
        progress.at(`${answers.length} events`);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, client));
    const seconds = (performance.now() - startedAt) / 1_000;
    const per = (from: number | null, to: number | null): number | null =>
      from === null || to === null ? null : round((to - from) / answers.length);
    const cpuAfter = { api: cpuMsOf(sides.api.pid), postgres: cpuMsOfPostgres(ground.postgresPid) };
    const sent = between(statements, await readStatements(sides.ours.sql, 'bench_api'));
    measured.push({
      concurrency,
      events_per_second: round(answers.length / seconds),
      answer_ms: spreadOf(answers),
      statements_per_event: round(sum(sent.map((statement) => statement.calls)) / answers.length),
      cpu_ms_per_event: { api: per(cpu.api, cpuAfter.api), postgres: per(cpu.postgres, cpuAfter.postgres) },
    });
  }
  return measured;
}
