// The types of room events. A new type needs its answer schema in the API (room-answers.ts).

export const ROOM_EVENT_TYPES = [
  'message',
  'task',
  'task_response',
  'task_verdict',
  'memory',
  'memory_deprecation',
  'member_joined',
  'member_left',
  'agent_added',
  'agent_removed',
  'file_added',
  'task_started',
  'wake_suppressed',
  'run_ended',
  'room_paused',
  'room_resumed',
  'room_closed',
  'redacted',
] as const;
export type RoomEventType = (typeof ROOM_EVENT_TYPES)[number];
