// The results of the bench as text and as JSON.

import type { ApiEvents } from './api-events';
import type { Fairness } from './fairness';
import type { Latency } from './latency';
import type { Machine } from './machine';
import type { Parked } from './parked';
import type { Idle, PerRun } from './per-run';
import type { RoomSizes } from './room-size';
import type { SettingsResult } from './settings';
import type { SideName } from './sides';
import { round } from './statistics';
import type { Throughput } from './throughput';
import type { Cpu } from './usage';

export interface Measured {
  readonly machine: Machine;
  readonly versions: Readonly<Record<string, string>>;
  readonly latency: Latency;
  readonly throughput: Throughput;
  readonly perRun: Readonly<Record<SideName, PerRun>>;
  readonly idle: Idle;
  readonly apiEvents: readonly ApiEvents[];
  readonly fairness: Fairness;
  readonly parked: Parked;
  readonly seconds: number;
}

/** Reported, not enforced, because a busy machine is no failure. `limit` must hold on a quiet machine. */
const GOALS = {
  wake_to_reply_vs_bare: { limit: 1.3, goal: 1.15, better: 'less' },
  runs_per_second_vs_seven: { limit: 1.4, goal: 1.6, better: 'more' },
  activities: { limit: 3, goal: 3, better: 'less' },
  history_events: { limit: 25, goal: 25, better: 'less' },
  history_bytes: { limit: 4_096, goal: 4_096, better: 'less' },
  statements: { limit: 20, goal: 20, better: 'less' },
} as const;

export function toJson(measured: Measured): Record<string, unknown> {
  const { machine, versions, latency, throughput, perRun, idle, apiEvents, fairness, parked, seconds } = measured;
  const { activities, history_events, history_bytes, statements } = perRun.ours;
  return {
    machine,
    versions,
    ratios: {
      wake_to_reply_vs_bare: round(latency.ratio),
      runs_per_second_vs_seven: round(throughput.ratio),
    },
    per_run: { activities, history_events, history_bytes, statements },
    fairness,
    parked,
    raw: { wake_to_reply: latency, throughput, per_run: perRun, idle, api_events: apiEvents, seconds },
  };
}

export function print(measured: Measured, say: (line: string) => void): void {
  const { machine, versions, latency, throughput, perRun, idle, apiEvents, fairness } = measured;
  say('');
  say(`${machine.cpu}, ${machine.cores} cores, ${machine.memory_gb} GB, ${machine.platform}`);
  say(
    Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(' · '),
  );
  say('');
  say('Ratios, and the cost of a run that only replies');
  const { ours } = perRun;
  for (const [name, value] of [
    ['wake_to_reply_vs_bare', round(latency.ratio)],
    ['runs_per_second_vs_seven', round(throughput.ratio)],
    ['activities', ours.activities],
    ['history_events', ours.history_events],
    ['history_bytes', ours.history_bytes],
    ['statements', ours.statements ?? Number.NaN],
  ] as const) {
    say(`  ${name.padEnd(26)} ${String(value).padStart(8)}   ${verdict(name, value)}`);
  }
  printLatency(latency, say);
  say('');
  say(`Runs per second, ${throughput.in_flight} in flight`);
  table(say, [
    ['', 'median', 'rounds', ...cpuHeads('CPU ms per run: ')],
    ...(['ours', 'seven'] as const).map((name) => {
      const rounds = throughput[name];
      const cpu = rounds[Math.floor((rounds.length - 1) / 2)]?.cpu_ms;
      const all = rounds.map((one) => one.runs_per_second).join(' ');
      return [name, throughput.runs_per_second[name], all, ...cpuCells(cpu)];
    }),
  ]);
  say('');
  say('Per run, one at a time');
  table(say, [
    ['', 'activities', 'events', 'bytes', 'statements', ...cpuHeads('CPU ms: '), 'p50 ms'],
    ...(['ours', 'bare', 'seven'] as const).map((name) => {
      const one = perRun[name];
      return [
        name,
        one.activities,
        one.history_events,
        one.history_bytes,
        one.statements ?? '-',
        ...cpuCells(one.cpu_ms),
        one.wake_to_reply.p50,
      ];
    }),
  ]);
  say('');
  say('Statements of a run of ours: calls per run and ms per call, counted by Postgres, including idle loops');
  for (const { per_run, mean_ms, text } of ours.by_statement) {
    say(`  ${per_run.toFixed(2).padStart(6)} × ${mean_ms.toFixed(3).padStart(7)}  ${text.slice(0, 110)}`);
  }
  say('');
  say('API, messages without addressees; "per core": events per second if the API and PostgreSQL shared one core');
  table(say, [
    [
      'rooms',
      'per request',
      'concurrent',
      'events/s',
      'per core',
      'p50 ms',
      'p99 ms',
      'statements',
      'CPU ms: API',
      'postgres',
    ],
    ...apiEvents.map((one) => [
      one.rooms,
      one.batch,
      one.concurrency,
      one.events_per_second,
      one.events_per_second_per_core ?? '-',
      one.answer_ms.p50,
      one.answer_ms.p99,
      one.statements_per_request,
      one.cpu_ms_per_event.api ?? '-',
      one.cpu_ms_per_event.postgres ?? '-',
    ]),
  ]);
  printFairness(fairness, say);
  printParked(measured.parked, say);
  say('');
  const idleCpu = idle.cpu_ms_per_second;
  say(
    `Idle, CPU ms per second: temporal ${idleCpu.ours.temporal ?? '-'}, postgres ${idleCpu.ours.postgres ?? '-'}, ` +
      `workers: ours ${idleCpu.ours.worker ?? '-'}, seven ${idleCpu.seven.worker ?? '-'}, bare ${idleCpu.bare.worker ?? '-'}; ` +
      `statements per second of ours ${idle.statements_per_second.ours}`,
  );
}

export function printLatency(latency: Latency, say: (line: string) => void): void {
  say('');
  say(`Wake to reply, one at a time, ms: ours ${round(latency.ratio)} times the bare workflow`);
  table(say, [
    ['', 'p50', 'p99', 'mean', 'least', 'samples'],
    ...(['ours', 'bare'] as const).map((name) => {
      const spread = latency[name];
      return [name, spread.p50, spread.p99, spread.mean, spread.least, spread.samples];
    }),
  ]);
  for (const name of ['ours', 'bare'] as const) {
    say('');
    say(`Parts of that time, ${name}, medians in ms`);
    for (const { hop, ms } of latency.hops[name]) say(`  ${hop.padEnd(56)} ${ms.toFixed(2).padStart(7)}`);
  }
}

export function printParked(parked: Parked, say: (line: string) => void): void {
  say('');
  say(`${parked.runs} parked runs (waiting for approval) on one worker`);
  table(say, [
    ['worker', 'MB', 'connections', 'CPU ms/s'],
    ...(['none', 'ordinary', 'parked', 'restarted', 'done'] as const).map((when) => {
      const { rss_mb, connections, worker_cpu } = parked[when];
      return [when, rss_mb ?? '-', connections, worker_cpu ?? '-'];
    }),
  ]);
  say(
    `  in a sample: ${parked.pending_activities} pending activities, ${parked.timers} timers, ` +
      `${parked.events_by_restart} history events added by the restart`,
  );
  say(
    `  all decided at once: executed within ${parked.decided_and_done_seconds} s, ${parked.carried_out} once, ` +
      `${parked.carried_out_twice} more than once`,
  );
}

/** The highest allowed ratio between a room with a million messages and one with a thousand. */
const ROOM_SIZE_LIMIT = 2;

export function printRoomSizes({ small, large, fill_seconds, reads }: RoomSizes, say: (line: string) => void): void {
  say('');
  say(
    `Reads of a room with ${large.messages} messages, ${large.memory} memory entries and ${large.passages} passages, compared with ` +
      `one with ${small.messages} of each, ms (filled in ${fill_seconds} s); limit: ≤ ${ROOM_SIZE_LIMIT}`,
  );
  table(say, [
    ['', 'small p50', 'large p50', 'small p99', 'large p99', 'ratio', ''],
    ...reads.map((one) => [
      one.read,
      one.small.p50,
      one.large.p50,
      one.small.p99,
      one.large.p99,
      one.ratio,
      one.ratio <= ROOM_SIZE_LIMIT ? 'met' : 'missed',
    ]),
  ]);
}

export function printFairness({ flood, capped, uncapped }: Fairness, say: (line: string) => void): void {
  say('');
  say(`Fairness: one company posts ${flood} messages at once, another company posts single messages`);
  table(say, [
    ['company limit', "flood's runs before the reply: median", 'most', 'ms to the reply: most'],
    ...[capped, uncapped].map((one, index) => [
      index === 0 ? `${one.company_limit}, the default` : 'no limit',
      one.median_runs_between,
      Math.max(...one.runs_between),
      Math.max(...one.reply_ms),
    ]),
  ]);
}

export function printSettings(settings: readonly SettingsResult[], say: (line: string) => void): void {
  say('');
  say('Settings of a worker, one changed at a time');
  table(say, [
    ['', 'runs/s', 'worker MB'],
    ...settings.map(({ name, runs_per_second, memory_mb }) => [name, runs_per_second, memory_mb]),
  ]);
}

function verdict(name: keyof typeof GOALS, value: number): string {
  const { limit, goal, better } = GOALS[name];
  const meets = (bound: number): boolean => (better === 'less' ? value <= bound : value >= bound);
  const sign = better === 'less' ? '≤' : '≥';
  const wanted = limit === goal ? `${sign} ${limit}` : `${sign} ${limit}, goal ${goal}`;
  return `${wanted}: ${meets(goal) ? 'met' : meets(limit) ? 'within the limit' : 'missed'}`;
}

function cpuHeads(label: string): string[] {
  return [`${label}temporal`, 'worker', 'postgres'];
}

function cpuCells(cpu: Cpu | undefined): (string | number)[] {
  return [cpu?.temporal ?? '-', cpu?.worker ?? '-', cpu?.postgres ?? '-'];
}

function table(say: (line: string) => void, rows: readonly (readonly (string | number)[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => String(row[column] ?? '').length)));
  for (const row of rows) {
    say(
      `  ${row.map((cell, column) => String(cell)[column === 0 ? 'padEnd' : 'padStart'](widths[column] ?? 0)).join('  ')}`,
    );
  }
}
