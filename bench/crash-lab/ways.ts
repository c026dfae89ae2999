// The five ways of surviving a crash that are compared, and what each kill point means in each of them.

import { pointsOf, STEPS, type Point, type Step } from './points';

export const WAYS = ['top', 'replay', 'record', 'stop', 'resume'] as const;
export type Way = (typeof WAYS)[number];

/** The ways that the room has: the real `agentRun` with the real activities. */
export type RoomWay = 'stop' | 'resume';

export function isRoomWay(way: Way): way is RoomWay {
  return way === 'stop' || way === 'resume';
}

export interface WayFacts {
  readonly number: number;
  /** For a column or a row. */
  readonly title: string;
  readonly short: string;
  readonly how: string;
  /** Where its code has another shape than the points' names say. */
  readonly mapping: string;
}

export const WAY_FACTS: Readonly<Record<Way, WayFacts>> = {
  top: {
    number: 1,
    title: 'Start again from the top',
    short: 'nothing is kept but “it did not finish”',
    how: 'One Temporal activity does the whole job. When its worker dies it times out, and another attempt runs the whole job again.',
    mapping:
      'It keeps nothing of a step, so “after” is where the code goes on to the next step; after the task it is the acknowledgement of the whole job.',
  },
  replay: {
    number: 2,
    title: 'Replay, Temporal’s defaults',
    short: 'finished steps come from the history',
    how: 'A workflow of five activities (read, model, post, memory, task), each retried until it succeeds, without keys.',
    mapping: 'Every point is what its name says: “after” is Temporal holding the activity’s result.',
  },
  record: {
    number: 3,
    title: 'A record after each effect',
    short: 'looked up before, written after',
    how: 'As way 1, but each effect leaves a record in a second transaction, and before acting the record is looked up. The model’s reply is an effect too: its record holds it.',
    mapping:
      'A read has no record, so its “after” is where the code goes on. Elsewhere “after” is the record being committed.',
  },
  stop: {
    number: 4,
    title: 'Claim first (on_crash: stop)',
    short: 'one attempt a step',
    how: 'The room’s own agentRun: the message is claimed before anything else, each acting step is one transaction with its step row and gets one attempt.',
    mapping:
      'Reading the room and claiming the model request are one transaction of one activity with the model call: “read:before” is that activity before it begins, “read:after” and “model:before” are the same place, the request about to be sent; “model:after” is Temporal holding the reply’s hash. Effect and record are one commit, so “between” is before the acknowledgement only.',
  },
  resume: {
    number: 5,
    title: 'Claim first, recorded steps (on_crash: resume)',
    short: 'retried by step key',
    how: 'The same agentRun in a room with on_crash “resume”: an acting step is retried under its step key, and a step that has its row returns what the row says.',
    mapping: 'As way 4.',
  },
};

/** The steps of a way. Only the room has a claim. */
export function stepsOf(way: Way): readonly Step[] {
  return isRoomWay(way) ? STEPS : STEPS.filter((step) => step !== 'claim');
}

/** The points at which a worker of this way can be made to die, of those asked for. */
export function pointsOfWay(way: Way, asked: readonly Point[] | 'all'): Point[] {
  const all = pointsOf(stepsOf(way));
  return asked === 'all' ? all : all.filter((point) => asked.includes(point));
}
