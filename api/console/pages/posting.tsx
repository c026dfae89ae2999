// Writing to a room: a message or a task, looked at before it is sent, with the agents that it addresses. Whom it addresses
// is found by the code that finds them when it is posted.

import type { Express } from 'express';
import { findMentions } from '../../../workflows/policy/mentions';
import { TASK_PRIORITIES } from '../../../workflows/contract';
import { Csrf, Once, ProblemBox, type Page } from '../page';
import { PATHS } from '../paths';
import { Refused, type ShownProblem } from '../routes-client';
import type { Member, Room, RosterEntry } from '../resources';
import { fieldOf, shows, takes, type ConsoleDeps, type Reply, type Visit } from '../visit';
import { namesOf } from './room';
import type { Names } from './room-events';

export function mountPosting(app: Express, deps: ConsoleDeps): void {
  app.post(`${PATHS.rooms}/:room/message`, ...takes(deps, messagePreview));
  app.get(
    `${PATHS.rooms}/:room/task`,
    shows(deps, async (visit) => taskForm(await placeOf(visit), visit, null)),
  );
  app.post(`${PATHS.rooms}/:room/task`, ...takes(deps, taskPreview));
  app.post(`${PATHS.rooms}/:room/send`, ...takes(deps, sendIt));
}

interface Place {
  readonly room: Room;
  readonly roster: readonly RosterEntry[];
  readonly names: Names;
}

async function placeOf({ api, id }: Visit): Promise<Place> {
  const path = `/v1/rooms/${id('room')}`;
  const [room, members, roster] = await Promise.all([
    api.get<Room>(path),
    api.list<Member>(`${path}/members`),
    api.list<RosterEntry>(`${path}/roster`, { limit: 200 }),
  ]);
  return { room, roster, names: namesOf(members, roster) };
}

async function messagePreview(visit: Visit): Promise<Page> {
  return messagePage(await placeOf(visit), visit, null);
}

function messagePage({ room, roster, names }: Place, visit: Visit, problem: ShownProblem | null): Page {
  const text = fieldOf(visit.form, 'text');
  const addressees = roster.map(({ agent: agentId, slug, name }) => ({ agentId, slug, name }));
  const { agentIds } = findMentions(text, addressees);
  return {
    title: 'Before it is sent',
    status: problem === null ? 200 : 400,
    body: (
      <>
        {problem && <ProblemBox problem={problem} />}
        <Addressed room={room} names={names} agentIds={agentIds} roster={roster} />
        <form method="post" action={PATHS.inRoom(room.id, 'send')} class="card">
          <Csrf token={visit.who.csrf} />
          <Once name={visit.once} />
          <input type="hidden" name="type" value="message" />
          <h2>The message</h2>
          <p class="said" id="preview">
            {text}
          </p>
          <input type="hidden" name="text" value={text} />
          <button>Send it to {room.name}</button>
        </form>
        <form method="post" action={PATHS.inRoom(room.id, 'message')}>
          <Csrf token={visit.who.csrf} />
          <label for="text">Change it</label>
          <textarea id="text" name="text" required>
            {text}
          </textarea>
          <div class="buttons">
            <button class="quiet">Look at it again</button>
            <a href={PATHS.room(room.id)}>Don’t send it</a>
          </div>
        </form>
      </>
    ),
  };
}

function Addressed(props: { room: Room; names: Names; agentIds: readonly string[]; roster: readonly RosterEntry[] }) {
  const { room, names, agentIds, roster } = props;
  const found = agentIds.flatMap((id) => roster.filter(({ agent }) => agent === id));
  return (
    <div class={`box ${found.length === 0 ? '' : 'waiting'}`} id="addressed">
      {found.length === 0 ? (
        'It addresses no agent, so it wakes none. Everybody in the room can read it.'
      ) : (
        <>
          It addresses:
          <ul>
            {found.map((entry) => (
              <li>
                <strong>{entry.name}</strong> <code>@{entry.slug}</code> of {names.company(entry.company)}
              </li>
            ))}
          </ul>
          Those of them that are always on are woken, each for one run of the room’s {room.run_allowance}.
        </>
      )}
      {room.paused_at !== null && ' The room is paused: nobody is woken by it.'}
    </div>
  );
}

const TASK_FIELDS = ['to', 'goal', 'criteria', 'priority', 'deadline'] as const;

function taskForm({ room, roster, names }: Place, visit: Visit, problem: ShownProblem | null): Page {
  const { form, who } = visit;
  return {
    title: `A task in ${room.name}`,
    status: problem === null ? 200 : 400,
    body: (
      <>
        {problem && <ProblemBox problem={problem} />}
        <form method="post" action={PATHS.inRoom(room.id, 'task')} class="card">
          <Csrf token={who.csrf} />
          <label for="to">Who is to do it</label>
          <select id="to" name="to" required>
            {roster.map(({ slug, name, company }) => (
              <option value={slug} selected={slug === form.get('to')}>
                {`${name} (@${slug}) of ${names.company(company)}`}
              </option>
            ))}
          </select>
          <label for="goal">What is to be done</label>
          <textarea id="goal" name="goal" required>
            {fieldOf(form, 'goal')}
          </textarea>
          <label for="criteria">How it is known to be done, one criterion a line</label>
          <textarea id="criteria" name="criteria">
            {fieldOf(form, 'criteria')}
          </textarea>
          <label for="priority">Priority</label>
          <select id="priority" name="priority">
            {TASK_PRIORITIES.map((priority) => (
              <option value={priority} selected={priority === (form.get('priority') ?? 'normal')}>
                {priority}
              </option>
            ))}
          </select>
          <label for="deadline">Deadline, if there is one</label>
          <input id="deadline" name="deadline" type="date" value={fieldOf(form, 'deadline')} />
          <div class="buttons">
            <button>Look at it before sending</button>
            <a href={PATHS.room(room.id)}>Don’t send it</a>
          </div>
        </form>
      </>
    ),
  };
}

async function taskPreview(visit: Visit): Promise<Page> {
  const { room, roster, names } = await placeOf(visit);
  const { form, who, once } = visit;
  const to = roster.find(({ slug }) => slug === form.get('to'));
  if (to === undefined || fieldOf(form, 'goal').trim() === '') {
    const detail = to === undefined ? 'Choose an agent of this room’s roster.' : 'Say what is to be done.';
    return taskForm({ room, roster, names }, visit, { code: 'invalid_input', title: 'Something is missing', detail });
  }
  const task = taskOf(form);
  return {
    title: 'Before it is sent',
    body: (
      <>
        <Addressed room={room} names={names} agentIds={[to.agent]} roster={roster} />
        <form method="post" action={PATHS.inRoom(room.id, 'send')} class="card">
          <Csrf token={who.csrf} />
          <Once name={once} />
          <input type="hidden" name="type" value="task" />
          {TASK_FIELDS.map((name) => (
            <input type="hidden" name={name} value={fieldOf(form, name)} />
          ))}
          <h2>The task</h2>
          <p class="said">{task.goal}</p>
          <ul>
            {task.acceptance_criteria.map((criterion) => (
              <li>{criterion}</li>
            ))}
          </ul>
          <p class="meta">
            <span>{task.priority} priority</span>
            {task.deadline !== null && <span>due {task.deadline}</span>}
          </p>
          <button>Send it to {to.name}</button>
        </form>
        <p>
          <a href={PATHS.room(room.id)}>Don’t send it</a>
        </p>
      </>
    ),
  };
}

function taskOf(form: URLSearchParams) {
  const deadline = fieldOf(form, 'deadline').trim();
  return {
    type: 'task',
    to: fieldOf(form, 'to'),
    goal: fieldOf(form, 'goal'),
    acceptance_criteria: fieldOf(form, 'criteria')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== ''),
    priority: fieldOf(form, 'priority') || 'normal',
    deadline: deadline === '' ? null : deadline,
  };
}

/** The write itself, under the form's own name: sent twice, it is one. */
async function sendIt(visit: Visit): Promise<Reply> {
  const { api, id, form } = visit;
  const isTask = form.get('type') === 'task';
  const event = isTask ? taskOf(form) : { type: 'message', text: fieldOf(form, 'text') };
  try {
    const posted = await api.post<{ event: string }>(
      `/v1/rooms/${id('room')}/events`,
      event,
      form.get('once') ?? undefined,
    );
    return { redirect: `${PATHS.room(id('room'))}#${posted.event}` };
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 400) throw error;
    // What was written is kept, and shown with what is wrong with it.
    const place = await placeOf(visit);
    return isTask ? taskForm(place, visit, error.problem) : messagePage(place, visit, error.problem);
  }
}
