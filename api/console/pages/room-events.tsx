// Shows each event of a room's feed. Texts of people and agents are shown as plain text, never as markup.

import type { Child } from 'hono/jsx';
import { Time, Word } from '../page';
import { PATHS } from '../paths';
import type { Message, RoomEvent, Task } from '../resources';

/** Looks up the names of companies and agents in a room's events. */
export interface Names {
  company(id: string | null): string;
  agent(id: string): string;
  /** The exact reason of a suppressed wake of the own company; the feed contains a less exact one. */
  reason?(wake: string): string | undefined;
}

/** Reasons of suppressed wakes. */
const REASONS: Readonly<Record<string, string>> = {
  paused: 'the room or the agent is paused',
  allowance: 'the room has no runs left',
  hop_limit: 'agents have woken agents too many times in a row',
  key_rejected: "the provider rejects the agent's model key",
  budget: 'its token budget is used up',
  not_a_member: 'its company has left the room',
  room_closed: 'the room is closed',
  suspended: 'its company is suspended',
  unavailable: 'the agent is not available',
};

/** Endings of runs. */
export const ENDING_TEXTS: Readonly<Record<string, string>> = {
  replied: 'it replied',
  silent: 'it ended without a reply',
  partial: 'it completed only some of its steps',
  failed: 'it completed no step',
  not_allowed: 'its rights do not allow a reply',
  refused: 'the model provider refused the request',
  busy: 'the model provider kept failing',
  timed_out: 'it reached its time limit',
  declined: 'its reply was declined',
  expired: 'its reply expired without a decision',
  cancelled: 'it was cancelled',
  lost: 'its workflow was lost',
};

type RenderLine = (data: Readonly<Record<string, unknown>>, event: RoomEvent, names: Names, room: string) => Child;

const authorOf = (event: RoomEvent): string => event.author?.name ?? 'Unknown author';

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Event types that are shown as one line. Messages and tasks are shown as cards. */
const LINES: Readonly<Record<string, RenderLine>> = {
  task_started: (data, _, names) =>
    `${names.agent(text(data['recipient']))} started the task “${short(text(data['goal']))}”.`,
  task_verdict: (data, event) => (
    <>
      {authorOf(event)} <Word of={text(data['verdict'])} /> the result of “{short(text(data['goal']))}”.{' '}
      {text(data['verdict_note'])}
    </>
  ),
  memory: (data, event, names) =>
    data['content'] === undefined ? (
      `${names.company(event.company)} wrote a private memory entry.`
    ) : (
      <>
        {authorOf(event)} wrote to memory ({text(data['category'])}): <span class="text">{text(data['content'])}</span>
      </>
    ),
  memory_deprecation: () => 'A memory entry was deprecated.',
  member_joined: (data) => `${text(data['name'])} joined the room.`,
  member_left: (data, _, names) => `${names.company(text(data['company']))} left the room.`,
  agent_added: (data) => `${text(data['name'])} (@${text(data['slug'])}) was added to the room.`,
  agent_removed: (data) => `${text(data['name'])} (@${text(data['slug'])}) was removed from the room.`,
  file_added: (data, event, _, room) => (
    <>
      {authorOf(event)} added the file{' '}
      <a href={PATHS.file(room, text(data['id']))}>{text(data['name']) || 'unnamed file'}</a>.
    </>
  ),
  wake_suppressed: (data, _, names) => {
    const reason = names.reason?.(text(data['wake'])) ?? text(data['reason']);
    return (
      <>
        <span class="word waiting">not woken</span> {names.agent(text(data['agent']))}: {REASONS[reason] ?? reason}.
      </>
    );
  },
  run_ended: (data, _, names) => (
    <>
      <Word of={text(data['ending'])} /> {names.agent(text(data['agent']))}: {ENDING_TEXTS[text(data['ending'])]}.{' '}
      <a href={PATHS.run(text(data['run']))}>Open run</a>
    </>
  ),
  room_paused: (_, event) => `${authorOf(event)} paused the room: no agent is woken.`,
  room_resumed: (_, event) => `${authorOf(event)} resumed the room.`,
  room_closed: () => 'The room was closed.',
  redacted: (data) => `A ${text(data['kind'])} was redacted by its company.`,
};

/** One event. A task is shown with its current state. */
export function EventItem(props: { event: RoomEvent; room: string; names: Names; tasks: ReadonlyMap<string, Task> }) {
  const { event, room, names, tasks } = props;
  switch (event.type) {
    case 'message':
      return <MessageCard event={event} names={names} />;
    case 'task': {
      const sent = event.data as Task;
      return <TaskCard event={event} task={tasks.get(sent.id) ?? sent} names={names} />;
    }
    case 'task_response': {
      const { goal, state, result } = event.data as Task;
      return (
        <li class="card" id={event.id}>
          <Byline event={event} names={names}>
            responded to a task
          </Byline>
          <p>
            <Word of={state} /> “{short(goal)}”
          </p>
          <p class="text">{result}</p>
        </li>
      );
    }
    default: {
      const line = LINES[event.type]?.(event.data as Record<string, unknown>, event, names, room);
      return (
        <li class="event" id={event.id}>
          {line ?? `Event of an unknown type: ${event.type}.`} <Time at={event.at} />
        </li>
      );
    }
  }
}

function MessageCard({ event, names }: { event: RoomEvent; names: Names }) {
  const message = event.data as Message;
  return (
    <li class="card" id={event.id}>
      <Byline event={event} names={names}>
        {message.mentions.length > 0 && `to ${message.mentions.map((agent) => names.agent(agent)).join(', ')}`}
      </Byline>
      <TextOrRedacted text={message.text} redacted={message.redacted_at} />
    </li>
  );
}

function TaskCard({ event, task, names }: { event: RoomEvent; task: Task; names: Names }) {
  return (
    <li class="card" id={event.id}>
      <Byline event={event} names={names}>
        sent a task to {names.agent(task.recipient)}
      </Byline>
      <TaskFacts task={task} />
    </li>
  );
}

/** A task's goal, state and result. */
export function TaskFacts({ task }: { task: Task }) {
  return (
    <>
      <TextOrRedacted text={task.goal} redacted={task.redacted_at} />
      {task.acceptance_criteria.length > 0 && (
        <ul>
          {task.acceptance_criteria.map((criterion) => (
            <li>{criterion}</li>
          ))}
        </ul>
      )}
      <p class="meta">
        <Word of={task.state} />
        <span>{task.priority} priority</span>
        {task.deadline !== null && <span>due {task.deadline}</span>}
        {task.verdict !== null && <Word of={task.verdict} />}
      </p>
      {task.result !== null && <p class="text">{task.result}</p>}
    </>
  );
}

function Byline({ event, names, children }: { event: RoomEvent; names: Names; children?: Child }) {
  return (
    <p class="meta">
      <strong>{event.author?.name ?? 'The room'}</strong>
      <span>{names.company(event.company)}</span>
      <span>{children}</span>
      <Time at={event.at} />
      <a href={`#${event.id}`}>#{event.seq}</a>
    </p>
  );
}

function TextOrRedacted({ text: written, redacted }: { text: string; redacted: string | null }) {
  return redacted === null ? (
    <p class="text">{written}</p>
  ) : (
    <p class="empty">
      Redacted on <Time at={redacted} />
    </p>
  );
}

const SHORT_LENGTH = 80;

function short(of: string): string {
  const letters = Array.from(of);
  return letters.length <= SHORT_LENGTH ? of : `${letters.slice(0, SHORT_LENGTH - 1).join('')}…`;
}
