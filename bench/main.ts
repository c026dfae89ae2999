// `npm run bench`: the cost of a run, compared with other designs. `--quick` takes about a minute, `--json FILE` writes all
// numbers, `--no-room-size` skips the large room, `--only wake-to-reply | fairness | parked | room-size | settings` measures
// one part, `--parked N` sets the number of parked runs.
//
//   start everything → warm up → idle → wake to reply → per run → runs per second → API → fairness → parked runs →
//   a large room → print → stop
//
// Exit code: 0 if everything was measured, with any result; 1 after an error; 130 after an interruption.

import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { measureApiEvents } from './api-events';
import { driveBare, driveRun } from './drive';
import { createFairnessDatabases, measureFairness } from './fairness';
import { startEnvironment, type BenchEnvironment } from './environment';
import { measureLatency } from './latency';
import { describeMachine, readVersions } from './machine';
import { measureParked } from './parked';
import { measureIdle, measurePerRun } from './per-run';
import { createProgress, type Progress } from './progress';
import {
  print,
  printFairness,
  printLatency,
  printParked,
  printRoomSizes,
  printSettings,
  toJson,
  type Measured,
} from './report';
import { createSettingsDatabases, measureSettings } from './settings';
import { measureRoomSize, type RoomSizes } from './room-size';
import { PARKED_DATABASE, startSides, type Sides } from './sides';
import { measureThroughput } from './throughput';

interface Scale {
  readonly warmUp: number;
  readonly idleSeconds: number;
  /** `mostMs`, here and below: the measurement stops after this time on a slow machine. */
  readonly latency: { readonly rounds: number; readonly mostMs: number };
  readonly perRun: { readonly rounds: number; readonly runs: number };
  readonly throughput: { readonly rounds: number; readonly runs: number; readonly mostMs: number };
  readonly apiMs: number;
  /** `settleMs`: Node releases memory about 20 s after its last work. */
  readonly parked: { readonly runs: number; readonly settleMs: number };
  readonly roomSize: { readonly messages: number; readonly memory: number; readonly rounds: number };
  /** Measured only with `--only settings`. */
  readonly settings: { readonly runs: number };
  readonly fairness: { readonly flood: number; readonly samples: number };
}

const WHOLE: Scale = {
  warmUp: 150,
  idleSeconds: 5,
  latency: { rounds: 150, mostMs: 75_000 },
  perRun: { rounds: 3, runs: 12 },
  throughput: { rounds: 3, runs: 120, mostMs: 20_000 },
  apiMs: 5_000,
  parked: { runs: 1_000, settleMs: 30_000 },
  roomSize: { messages: 1_000_000, memory: 100_000, rounds: 60 },
  settings: { runs: 200 },
  fairness: { flood: 1_000, samples: 10 },
};

const QUICK: Scale = {
  warmUp: 60,
  idleSeconds: 2,
  latency: { rounds: 30, mostMs: 15_000 },
  perRun: { rounds: 1, runs: 10 },
  throughput: { rounds: 1, runs: 30, mostMs: 10_000 },
  apiMs: 2_000,
  parked: { runs: 50, settleMs: 1_000 },
  roomSize: { messages: 20_000, memory: 10_000, rounds: 20 },
  settings: { runs: 60 },
  fairness: { flood: 200, samples: 3 },
};

const IN_FLIGHT = 50;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      only: { type: 'string' },
      parked: { type: 'string' },
      'no-room-size': { type: 'boolean', default: false },
    },
  });
  const chosen = values.quick ? QUICK : WHOLE;
  const parked = Number(values.parked ?? chosen.parked.runs);
  if (!Number.isInteger(parked) || parked < 1) throw new Error('--parked must be a whole number above 0');
  const scale = { ...chosen, parked: { ...chosen.parked, runs: parked } };
  const say = (line: string): void => console.log(line);
  const progress = createProgress(say);
  const abort = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    abort.signal.addEventListener('abort', () => reject(abort.signal.reason as Error));
  });
  // The races below handle the abort. Without this line an abort during the stop would be an unhandled rejection.
  aborted.catch(() => undefined);
  const interrupted = new Interrupted();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => abort.abort(interrupted));

  const startedAt = Date.now();
  let environment: BenchEnvironment | undefined;
  try {
    progress.begin('starting PostgreSQL and Temporal');
    const starting = startEnvironment({
      log: (line) => progress.at(line),
      onBroken: (reason) => abort.abort(new Error(reason)),
      signal: abort.signal,
    });
    environment = await starting;
    if (values.only !== undefined) {
      const part = await Promise.race([aborted, measureOnly(values.only, environment, scale, progress, say)]);
      if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(part, null, 2)}\n`);
      return 0;
    }
    const measured = await Promise.race([aborted, measure(environment, scale, progress, startedAt)]);
    progress.stop();
    print(measured, say);
    const saveNumbers = async (sizes: RoomSizes | null): Promise<void> => {
      if (values.json === undefined) return;
      const numbers = { ...toJson(measured), ...(sizes !== null && { room_size: sizes }) };
      await writeFile(values.json, `${JSON.stringify(numbers, null, 2)}\n`);
      say(`all numbers: ${values.json}`);
    };
    // Saved before the large room is filled, which takes minutes.
    await saveNumbers(null);
    if (values['no-room-size']) return 0;
    const sizes = await Promise.race([aborted, measureRooms(environment, scale, progress)]);
    progress.stop();
    printRoomSizes(sizes, say);
    await saveNumbers(sizes);
    return 0;
  } catch (error) {
    if (error === interrupted || abort.signal.reason === interrupted) {
      say('interrupted');
      return 130;
    }
    console.error(error);
    return 1;
  } finally {
    progress.begin('stopping everything');
    await environment?.stop();
    progress.stop();
  }
}

/** Measures one part only. */
async function measureOnly(
  part: string,
  environment: BenchEnvironment,
  scale: Scale,
  progress: Progress,
  say: (line: string) => void,
): Promise<Record<string, unknown>> {
  switch (part) {
    case 'wake-to-reply': {
      const sides = await startWarm(environment, scale, progress);
      const latency = await measureLatency(environment, sides, scale.latency, progress);
      progress.stop();
      printLatency(latency, say);
      return { wake_to_reply: latency };
    }
    case 'fairness': {
      await createFairnessDatabases(environment);
      const fairness = await measureFairness(environment, scale.fairness, progress);
      progress.stop();
      printFairness(fairness, say);
      return { fairness };
    }
    case 'settings': {
      await createSettingsDatabases(environment);
      const settings = await measureSettings(environment, scale.settings.runs, progress);
      progress.stop();
      printSettings(settings, say);
      return { settings };
    }
    case 'parked': {
      await environment.createDatabase(PARKED_DATABASE);
      const parked = await measureParked(environment, { ...scale.parked, seconds: scale.idleSeconds }, progress);
      progress.stop();
      printParked(parked, say);
      return { parked };
    }
    case 'room-size': {
      const sizes = await measureRooms(environment, scale, progress);
      progress.stop();
      printRoomSizes(sizes, say);
      return { room_size: sizes };
    }
    default:
      throw new Error('--only must be wake-to-reply, fairness, parked, room-size or settings');
  }
}

function measureRooms(environment: BenchEnvironment, { roomSize }: Scale, progress: Progress): Promise<RoomSizes> {
  const { rounds, ...size } = roomSize;
  return measureRoomSize(environment, { ...size, passages: size.memory }, rounds, progress);
}

class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

async function startWarm(environment: BenchEnvironment, scale: Scale, progress: Progress): Promise<Sides> {
  progress.begin('starting the workers and the API');
  const sides = await startSides(environment);
  progress.begin('warming up');
  for (let n = 0; n < scale.warmUp; n += 1) {
    await Promise.all([driveRun(sides.ours), driveRun(sides.seven), driveBare(environment, sides.bare)]);
  }
  environment.model.reset();
  return sides;
}

async function measure(
  environment: BenchEnvironment,
  scale: Scale,
  progress: Progress,
  startedAt: number,
): Promise<Measured> {
  const sides = await startWarm(environment, scale, progress);
  const idle = await measureIdle(environment, sides, scale.idleSeconds, progress);
  const latency = await measureLatency(environment, sides, scale.latency, progress);
  const perRun = await measurePerRun(environment, sides, idle, scale.perRun, progress);
  const throughput = await measureThroughput(
    environment,
    sides,
    { ...scale.throughput, inFlight: IN_FLIGHT },
    progress,
  );
  const apiEvents = await measureApiEvents(environment, sides, scale.apiMs, progress);
  const fairness = await measureFairness(environment, scale.fairness, progress);
  const parked = await measureParked(environment, { ...scale.parked, seconds: scale.idleSeconds }, progress);
  return {
    machine: describeMachine(),
    versions: await readVersions(environment),
    latency,
    throughput,
    perRun,
    idle,
    apiEvents,
    fairness,
    parked,
    seconds: (Date.now() - startedAt) / 1_000,
  };
}

void main().then((code) => process.exit(code));
