// What happened in a room, one event after the other, as its feed tells it. Texts stand as they were written, as text.

import type { Child } from 'hono/jsx';
import { Time, Word } from '../page';
import { PATHS } from '../paths';
import type { Message, RoomEvent, Task } from '../resources';

/** Names of the companies and agents that a room's events speak of. */
export interface Names {
  company(id: string | null): string;
  agent(id: string): string;
  /** Why a wake of one's own came to nothing; the feed tells everybody less. */
  reason?(wake: string): string | undefined;
}

/** Why a wake came to nothing, for people. */
const REASONS: Readonly<Record<string, string>> = {
  paused: 'the room or the agent is paused',
  allowance: 'the room has no runs left',
  hop_limit: 'agents have woken agents too many times in a row',
  key_rejected: "the provider refuses the agent's model key",
  budget: 'its budget of tokens is used up',
  not_a_member: 'its company is not in the room any more',
  room_closed: 'the room is closed',
  suspended: 'its company is suspended',
  unavailable: 'the agent is not available',
};

/** How a run ended, for people. */
export const ENDINGS_SAID: Readonly<Record<string, string>> = {
  replied: 'it replied',
  silent: 'it chose to say nothing',
  partial: 'it did a part of what it set out to do',
  failed: 'it did nothing',
  not_allowed: 'its rights do not allow the reply',
  refused: 'the model provider refused',
  busy: 'the model provider kept failing',
  timed_out: 'its time was over',
  declined: 'its reply was declined',
  expired: 'nobody decided about its reply in time',
  cancelled: 'it was cancelled',
  lost: 'its workflow is gone',
};

type Told = (data: Readonly<Record<string, unknown>>, event: RoomEvent, names: Names, room: string) => Child;

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Of the types that are a line; messages and tasks are cards. */
const LINES: Readonly<Record<string, Told>> = {
  task_started: (data, _, names) =>
    `${names.agent(text(data['recipient']))} has taken on “${short(text(data['goal']))}”.`,
  task_verdict: (data, event) => (
    <>
      {event.author?.name ?? 'Somebody'} has <Word of={text(data['verdict'])} /> what came of “
      {short(text(data['goal']))}”. {text(data['verdict_note'])}
    </>
  ),
  memory: (data, event, names) =>
    data['content'] === undefined ? (
      `${names.company(event.company)} has written a private line of memory.`
    ) : (
      <>
        {event.author?.name ?? 'Somebody'} has written to memory ({text(data['category'])}):{' '}
        <span class="said">{text(data['content'])}</span>
      </>
    ),
  memory_deprecation: () => 'A line of memory was deprecated.',
  member_joined: (data) => `${text(data['name'])} has joined the room.`,
  member_left: (data, _, names) => `${names.company(text(data['company']))} has left the room.`,
  agent_added: (data) => `${text(data['name'])} (@${text(data['slug'])}) is on the roster now.`,
  agent_removed: (data) => `${text(data['name'])} (@${text(data['slug'])}) is not on the roster any more.`,
  file_added: (data, event, _, room) => (
    <>
      {event.author?.name ?? 'Somebody'} has added the file{' '}
      <a href={PATHS.file(room, text(data['id']))}>{text(data['name']) || 'without a name'}</a>.
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
      <Word of={text(data['ending'])} /> {names.agent(text(data['agent']))}: {ENDINGS_SAID[text(data['ending'])]}.{' '}
      <a href={PATHS.run(text(data['run']))}>See the run</a>
    </>
  ),
  room_paused: (_, event) => `${event.author?.name ?? 'Somebody'} has paused the room: no agent is woken.`,
  room_resumed: (_, event) => `${event.author?.name ?? 'Somebody'} has resumed the room.`,
  room_closed: () => 'The room is closed.',
  redacted: (data) => `A ${text(data['kind'])} was redacted by its company.`,
};

/** One event. Of a task it shows the state in which it is now. */
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
            answers a task
          </Byline>
          <p>
            <Word of={state} /> “{short(goal)}”
          </p>
          <p class="said">{result}</p>
        </li>
      );
    }
    default: {
      const said = LINES[event.type]?.(event.data as Record<string, unknown>, event, names, room);
      return (
        <li class="event" id={event.id}>
          {said ?? `Something of a kind that this console does not know: ${event.type}.`} <Time at={event.at} />
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
      <Said what={message.text} redacted={message.redacted_at} />
    </li>
  );
}

function TaskCard({ event, task, names }: { event: RoomEvent; task: Task; names: Names }) {
  return (
    <li class="card" id={event.id}>
      <Byline event={event} names={names}>
        sends a task to {names.agent(task.recipient)}
      </Byline>
      <TaskFacts task={task} />
    </li>
  );
}

/** A task as it stands. */
export function TaskFacts({ task }: { task: Task }) {
  return (
    <>
      <Said what={task.goal} redacted={task.redacted_at} />
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
      {task.result !== null && <p class="said">{task.result}</p>}
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

function Said({ what, redacted }: { what: string; redacted: string | null }) {
  return redacted === null ? (
    <p class="said">{what}</p>
  ) : (
    <p class="empty">
      Redacted on <Time at={redacted} />
    </p>
  );
}

const SHORT = 80;

function short(of: string): string {
  const letters = Array.from(of);
  return letters.length <= SHORT ? of : `${letters.slice(0, SHORT - 1).join('')}…`;
}
