// Arranges a run's timeline in lanes: the lane of each entry, the entries that form one span, and their positions on the time
// axis. Pure; `lanes-picture.tsx` draws the result.
//
// Gaps have a logarithmic scale, so that a retry after two seconds and a wait of three days are both visible.

import type { Timeline } from './resources';

type Entry = Timeline['data'][number];

export const LANES = [
  'workflow',
  'attempts',
  'other executions',
  'provider requests',
  'room effects',
  'waits',
] as const;
export type Lane = (typeof LANES)[number];

export type Tone = 'plain' | 'good' | 'bad' | 'waiting';

/** A point in time or a span of time. */
export interface Mark {
  readonly lane: Lane;
  readonly tone: Tone;
  /** Milliseconds since 1970. `to` is null for a point in time. */
  readonly from: number;
  readonly to: number | null;
  readonly label: string;
  /** The span had no end when the timeline was read. */
  readonly open: boolean;
}

export interface Lanes {
  readonly marks: readonly Mark[];
  /** The position of a time on the axis, from 0 to 1. */
  readonly positionOf: (at: number) => number;
  readonly from: number;
  readonly to: number;
}

/** A span whose end has not been found yet. */
interface OpenSpan {
  readonly lane: Lane;
  readonly from: number;
  readonly tone: Tone;
  readonly label: string;
}

/** Open spans end at `now`, or at the newest entry if `now` is absent. */
export function layLanes(timeline: Pick<Timeline, 'data' | 'state'>, now?: number): Lanes {
  const marks: Mark[] = [];
  const opened = new Map<string, OpenSpan>();
  const close = (key: string, to: number, ended: { tone: Tone; label: string }): boolean => {
    const begun = opened.get(key);
    if (begun === undefined) return false;
    opened.delete(key);
    marks.push({ ...begun, ...ended, label: `${begun.label}; ${ended.label}`, to, open: false });
    return true;
  };
  for (const entry of timeline.data) {
    const at = Date.parse(entry.at);
    const label = entry.message;
    const move = moveOf(entry);
    switch (move.kind) {
      case 'moment':
        marks.push({ lane: move.lane, tone: move.tone, from: at, to: null, label, open: false });
        break;
      case 'begins':
        close(move.key, at, { tone: 'waiting', label: 'then again' });
        opened.set(move.key, { lane: move.lane, from: at, tone: move.tone, label });
        break;
      case 'ends':
        if (!close(move.key, at, { tone: move.tone, label })) {
          marks.push({ lane: move.lane, tone: move.tone, from: at, to: null, label, open: false });
        }
        break;
      case 'continues':
        close(move.key, at, { tone: 'waiting', label });
        close(move.next, at, { tone: 'waiting', label: 'then again' });
        opened.set(move.next, { lane: move.lane, from: at, tone: move.tone, label });
        break;
    }
  }
  const times = [...timeline.data.map(({ at }) => Date.parse(at)), ...(now === undefined ? [] : [now])];
  const [from, to] = [Math.min(...times), Math.max(...times)];
  for (const begun of opened.values()) {
    marks.push({ ...begun, tone: 'waiting', to: timeline.state === 'open' ? to : begun.from, open: true });
  }
  return { marks: marks.sort((a, b) => a.from - b.from), positionOf: scaleOf(times), from, to };
}

type Move =
  | { readonly kind: 'moment'; readonly lane: Lane; readonly tone: Tone }
  | { readonly kind: 'begins' | 'ends'; readonly lane: Lane; readonly tone: Tone; readonly key: string }
  /** One span ends and the next begins: the wait for an attempt ends when the attempt starts. */
  | {
      readonly kind: 'continues';
      readonly lane: Lane;
      readonly tone: Tone;
      readonly key: string;
      readonly next: string;
    };

/** The lane of an entry, for the table below the chart. */
export function laneOf(entry: Entry): Lane {
  return moveOf(entry).lane;
}

function moveOf({ kind, facts }: Entry): Move {
  const fact = (name: string): string => String(facts[name] ?? '');
  const moment = (lane: Lane, tone: Tone = 'plain'): Move => ({ kind: 'moment', lane, tone });
  switch (kind) {
    case 'wake':
    case 'claim':
      return moment('workflow');
    case 'ending':
      return moment('workflow', ENDED_WELL.has(fact('ending')) ? 'good' : 'bad');
    case 'request': {
      const key = `request ${fact('request')}`;
      if (facts['outcome'] === 'in_flight') return { kind: 'begins', lane: 'provider requests', tone: 'waiting', key };
      const tone = facts['outcome'] === 'answered' ? 'good' : 'bad';
      return { kind: 'ends', lane: 'provider requests', tone, key };
    }
    case 'step':
      return moment('room effects', facts['state'] === 'done' ? 'good' : 'bad');
    case 'room_event':
      return moment('room effects');
    case 'hold':
      return { kind: 'begins', lane: 'waits', tone: 'waiting', key: `hold ${fact('step')}` };
    case 'decision':
      return {
        kind: 'ends',
        lane: 'waits',
        tone: facts['state'] === 'approved' ? 'good' : 'bad',
        key: `hold ${fact('step')}`,
      };
    case 'attempt':
      return { kind: 'begins', lane: 'attempts', tone: 'waiting', key: `attempt ${fact('activity')}` };
    case 'execution': {
      const key = `execution ${fact('temporal_run')}`;
      return { kind: facts['ended'] === 1 ? 'ends' : 'begins', lane: 'other executions', tone: 'bad', key };
    }
    default:
      return historyMove(fact('type'), fact('activity_event'));
  }
}

/** An event of Temporal's history. */
function historyMove(type: string, activity: string): Move {
  const lane = 'attempts';
  const [scheduled, started] = [`scheduled ${activity}`, `started ${activity}`];
  switch (type) {
    case 'activityTaskScheduled':
      return { kind: 'begins', lane: 'waits', tone: 'waiting', key: scheduled };
    case 'activityTaskStarted':
      return { kind: 'continues', lane, tone: 'plain', key: scheduled, next: started };
    case 'activityTaskCompleted':
      return { kind: 'ends', lane, tone: 'good', key: started };
    case 'activityTaskFailed':
    case 'activityTaskTimedOut':
    case 'activityTaskCanceled':
      return { kind: 'ends', lane, tone: 'bad', key: started };
    case 'timerStarted':
    case 'timerFired':
    case 'timerCanceled':
      return { kind: 'moment', lane: 'waits', tone: 'waiting' };
    case 'workflowExecutionCompleted':
      return { kind: 'moment', lane: 'workflow', tone: 'good' };
    case 'workflowExecutionFailed':
    case 'workflowExecutionTerminated':
    case 'workflowExecutionTimedOut':
    case 'workflowExecutionCanceled':
    case 'workflowTaskFailed':
    case 'workflowTaskTimedOut':
      return { kind: 'moment', lane: 'workflow', tone: 'bad' };
    default:
      return { kind: 'moment', lane: 'workflow', tone: 'plain' };
  }
}

const ENDED_WELL = new Set(['replied', 'silent']);

/** Keeps simultaneous points apart. A gap that is ten times as long is about one unit wider. */
const LEAST_GAP = 0.35;
const GAP_UNIT_MS = 20;

function scaleOf(times: readonly number[]): (at: number) => number {
  const known = [...new Set(times)].sort((a, b) => a - b);
  const positions: number[] = [];
  let sum = 0;
  known.forEach((at, i) => {
    const before = known[i - 1];
    if (before !== undefined) sum += LEAST_GAP + Math.log10(1 + (at - before) / GAP_UNIT_MS);
    positions.push(sum);
  });
  return (at) => {
    const next = known.findIndex((time) => time >= at);
    if (sum === 0) return 0;
    return (next < 0 ? sum : (positions[next] ?? 0)) / sum;
  };
}
