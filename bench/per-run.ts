// The cost of one run that only replies: activities, history, statements, CPU. Runs do not overlap, so they share no cost. The
// usage of idle processes in the same time is subtracted.

import { setTimeout as sleep } from 'node:timers/promises';
import { wakeWorkflowId } from '../workflows/contract';
import { driveBare, driveRun, wakesToReplies } from './drive';
import type { BenchEnvironment } from './environment';
import type { Progress } from './progress';
import type { RoomSide, Side, SideName, Sides } from './sides';
import { between, readStatements, type Statements } from './statements';
import { round, spreadOf, sum, type Spread } from './statistics';
import { cpuPer, cpuRate, readCpu, type Cpu, type CpuReading } from './usage';

/** Time for the remaining work of earlier runs: acknowledgements, visibility records, a vacuum. */
const SETTLE_MS = 1_000;

export interface StatementOfRun {
  readonly per_run: number;
  readonly mean_ms: number;
  readonly text: string;
}

export interface PerRun {
  readonly runs: number;
  readonly activities: number;
  readonly history_events: number;
  readonly history_bytes: number;
  /** Statements of the worker (dispatcher and activities) without BEGIN and COMMIT. Null for bare runs, which use no database. */
  readonly statements: number | null;
  readonly by_statement: readonly StatementOfRun[];
  readonly cpu_ms: Cpu;
  readonly wake_to_reply: Spread;
}

export interface Idle {
  /** CPU milliseconds per second. */
  readonly cpu_ms_per_second: Readonly<Record<SideName, Cpu>>;
  readonly statements_per_second: Readonly<Record<'ours' | 'seven', number>>;
}

/** Measures the usage of idle processes. */
export async function measureIdle(
  environment: BenchEnvironment,
  sides: Sides,
  seconds: number,
  progress: Progress,
): Promise<Idle> {
  progress.begin('usage of idle processes');
  await sleep(SETTLE_MS);
  const all = [sides.ours, sides.seven, sides.bare];
  const before = all.map((side) => readCpu(environment, side));
  const [oursBefore, sevenBefore] = [await worker(sides.ours), await worker(sides.seven)];
  await sleep(seconds * 1_000);
  const after = all.map((side) => readCpu(environment, side));
  const [ours, seven] = [await worker(sides.ours), await worker(sides.seven)];
  const rate = (index: number): Cpu => cpuRate(before[index] as CpuReading, after[index] as CpuReading);
  const calls = (from: Statements, to: Statements): number => sum(between(from, to).map(({ calls: n }) => n)) / seconds;
  return {
    cpu_ms_per_second: { ours: rate(0), seven: rate(1), bare: rate(2) },
    statements_per_second: { ours: round(calls(oursBefore, ours)), seven: round(calls(sevenBefore, seven)) },
  };
}

export async function measurePerRun(
  environment: BenchEnvironment,
  sides: Sides,
  idle: Idle,
  counts: { rounds: number; runs: number },
  progress: Progress,
): Promise<Record<SideName, PerRun>> {
  const total = counts.rounds * counts.runs;
  progress.begin(`per run, ${total} of each, one at a time`);
  const used = { ours: [] as Cpu[], seven: [] as Cpu[], bare: [] as Cpu[] };
  const driven = { ours: [] as string[], seven: [] as string[], bare: [] as { workflowId: string; ms: number }[] };
  const before = { ours: await worker(sides.ours), seven: await worker(sides.seven) };
  let idleSeconds = { ours: 0, seven: 0 };
  for (let n = 0; n < counts.rounds; n += 1) {
    for (const name of ['ours', 'bare', 'seven'] as const) {
      progress.at(`round ${n + 1} of ${counts.rounds}, ${name}`);
      const from = readCpu(environment, sides[name]);
      for (let run = 0; run < counts.runs; run += 1) {
        if (name === 'bare') driven.bare.push(await driveBare(environment, sides.bare));
        else driven[name].push(await driveRun(sides[name]));
      }
      const to = readCpu(environment, sides[name]);
      used[name].push(cpuPer(counts.runs, from, to, idle.cpu_ms_per_second[name]));
      const seconds = (to.at - from.at) / 1_000;
      // The loops of the other sides keep polling and are counted on their own side.
      idleSeconds = { ours: idleSeconds.ours + seconds, seven: idleSeconds.seven + seconds };
    }
  }
  environment.model.reset();
  const ofRoom = async (name: 'ours' | 'seven'): Promise<PerRun> => {
    const statements = between(before[name], await worker(sides[name]));
    const calls = sum(statements.map((statement) => statement.calls));
    return {
      runs: total,
      ...(await historyOf(environment, await findWorkflows(sides[name], driven[name]))),
      statements: round((calls - idle.statements_per_second[name] * idleSeconds[name]) / total),
      by_statement: statements.map((statement) => ({
        per_run: round(statement.calls / total),
        mean_ms: Math.round((statement.totalMs / statement.calls) * 1_000) / 1_000,
        text: statement.text,
      })),
      cpu_ms: meanCpu(used[name]),
      wake_to_reply: spreadOf(await wakesToReplies(sides[name], driven[name])),
    };
  };
  return {
    ours: await ofRoom('ours'),
    seven: await ofRoom('seven'),
    bare: {
      runs: total,
      ...(await historyOf(
        environment,
        driven.bare.map((run) => run.workflowId),
      )),
      statements: null,
      by_statement: [],
      cpu_ms: meanCpu(used.bare),
      wake_to_reply: spreadOf(driven.bare.map((run) => run.ms)),
    },
  };
}

function worker(side: Side): Promise<Statements> {
  return readStatements(side.sql, 'bench_worker');
}

async function findWorkflows(side: RoomSide, messages: readonly string[]): Promise<string[]> {
  const { rows } = await side.sql.query<{ agent: string; message: string }>(
    'SELECT agent_id AS agent, message_id AS message FROM wakes WHERE message_id = ANY($1)',
    [messages],
  );
  return rows.map((row) => wakeWorkflowId(row.agent, row.message));
}

// The maximum over a few runs. Runs differ only in the length of ids and numbers.
async function historyOf(
  environment: BenchEnvironment,
  workflowIds: readonly string[],
): Promise<Pick<PerRun, 'activities' | 'history_events' | 'history_bytes'>> {
  const found: { activities: number; events: number; bytes: number }[] = [];
  for (const workflowId of workflowIds.slice(0, 10)) {
    const handle = environment.temporal.client.workflow.getHandle(workflowId);
    const { historyLength, historySize } = await handle.describe();
    const { events } = await handle.fetchHistory();
    const activities = (events ?? []).filter((event) => event.activityTaskScheduledEventAttributes).length;
    found.push({ activities, events: historyLength, bytes: historySize ?? 0 });
  }
  return {
    activities: Math.max(...found.map((one) => one.activities)),
    history_events: Math.max(...found.map((one) => one.events)),
    history_bytes: Math.max(...found.map((one) => one.bytes)),
  };
}

function meanCpu(all: readonly Cpu[]): Cpu {
  const mean = (part: keyof Cpu): number | null => {
    const values = all.map((cpu) => cpu[part]).filter((value) => value !== null);
    return values.length === 0 ? null : round(sum(values) / values.length);
  };
  return { temporal: mean('temporal'), worker: mean('worker'), postgres: mean('postgres') };
}
