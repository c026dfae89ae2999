// The five compared ways of surviving a crash, and the meaning of the kill points in each.

import { pointsOf, STEPS, type Point, type Step } from './points';

export const WAYS = ['top', 'replay', 'record', 'stop', 'resume'] as const;
export type Way = (typeof WAYS)[number];

/** The ways of the product: the real `agentRun` with the real activities. */
export type RoomWay = 'stop' | 'resume';

export function isRoomWay(way: Way): way is RoomWay {
  return way === 'stop' || way === 'resume';
}

export interface WayFacts {
  readonly number: number;
  /** For table headings. */
  readonly title: string;
  readonly short: string;
  readonly how: string;
  /** The meaning of the kill points if the code of the way has another structure. */
  readonly mapping: string;
}

export const WAY_FACTS: Readonly<Record<Way, WayFacts>> = {
  top: {
    number: 1,
    title: 'Start again from the top',
    short: 'no step is recorded',
    how: 'One Temporal activity does the whole job. When its worker dies, the activity times out, and another attempt repeats the whole job.',
    mapping:
      'It records no step, so “after” is the start of the next step; after the task it is the acknowledgement of the whole job.',
  },
  replay: {
    number: 2,
    title: 'Replay, Temporal’s defaults',
    short: 'finished steps come from the history',
    how: 'A workflow of five activities (read, model, post, memory, task), each retried until it succeeds, without keys.',
    mapping: 'Every point has its literal meaning: “after” means that Temporal has stored the activity’s result.',
  },
  record: {
    number: 3,
    title: 'A record after each effect',
    short: 'checked before, written after',
    how: 'As way 1, but each effect is recorded in a second transaction, and the record is checked before the effect. The model’s reply is recorded too.',
    mapping:
      'A read has no record, so its “after” is the start of the next step. For other steps “after” means that the record is committed.',
  },
  stop: {
    number: 4,
    title: 'Claim first (on_crash: stop)',
    short: 'one attempt per step',
    how: 'The room’s own agentRun: the message is claimed first; each acting step is one transaction with its step row and has one attempt.',
    mapping:
      'One activity reads the room and claims the model request in one transaction, and then calls the model. “read:before” is before this activity starts; “read:after” and “model:before” are the same point, before the request is sent; “model:after” means that Temporal has stored the reply’s hash. Effect and record are one commit, so “between” is only before the acknowledgement.',
  },
  resume: {
    number: 5,
    title: 'Claim first, recorded steps (on_crash: resume)',
    short: 'retried by step key',
    how: 'The same agentRun in a room with on_crash “resume”: an acting step is retried with its step key, and a step that already has its row returns the recorded result.',
    mapping: 'As way 4.',
  },
};

/** The steps of a way. Only the product's ways have a claim. */
export function stepsOf(way: Way): readonly Step[] {
  return isRoomWay(way) ? STEPS : STEPS.filter((step) => step !== 'claim');
}

/** The requested points at which a worker of this way can be killed. */
export function pointsOfWay(way: Way, asked: readonly Point[] | 'all'): Point[] {
  const all = pointsOf(stepsOf(way));
  return asked === 'all' ? all : all.filter((point) => asked.includes(point));
}
