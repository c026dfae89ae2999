// Reports of the store to the metrics of this process, sent after the statement that writes: kinds and reasons, no ids and
// no content. Node's diagnostics channel costs nothing without a subscriber, and the store needs no metrics library. A
// transaction whose COMMIT fails is reported too.

import { channel } from 'node:diagnostics_channel';
import type { SuppressedReason } from '../../../workflows/contract';
import type { RoomEventType } from './room-event-types';

export type Observation =
  | { readonly kind: 'room_event'; readonly type: RoomEventType }
  | { readonly kind: 'run_ended'; readonly ending: string }
  | { readonly kind: 'wake_pending' }
  | { readonly kind: 'wake_suppressed'; readonly reason: SuppressedReason };

/** The channel of the reports. Every message is one `Observation`. */
export const OBSERVATIONS = channel('durable-room.store');

export function observe(observation: Observation): void {
  OBSERVATIONS.publish(observation);
}
