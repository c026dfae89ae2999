// Sends a message or a task to a room after a preview, which lists the addressed agents. The preview finds mentions with the
// same code as the API.

import type { Express } from 'express';
import { findMentions } from '../../../workflows/policy/mentions';
import { TASK_PRIORITIES } from '../../../workflows/contract';
import { Csrf, Once, ProblemBox, type Page } from '../page';
import { PATHS } from '../paths';
import { Refused, type ShownProblem } from '../routes-client';
import type { Member, Room, RosterEntry } from '../resources';
import { fieldOf, handleGet, handleForm, type ConsoleDeps, type Reply, type Visit } from '../visit';
import { namesOf } from './room';
import type { Names } from './room-events';

export function mountPosting(app: Express, deps: ConsoleDeps): void {
  app.post(`${PATHS.rooms}/:room/message`, ...handleForm(deps, messagePreview));
  app.get(
    `${PATHS.rooms}/:room/task`,
    handleGet(deps, async (visit) => taskForm(await loadRoom(visit), visit, null)),
  );
  app.post(`${PATHS.rooms}/:room/task`, ...handleForm(deps, taskPreview));
  app.post(`${PATHS.rooms}/:room/send`, ...handleForm(deps, postEvent));
}

interface RoomContext {
  readonly room: Room;
  readonly roster: readonly RosterEntry[];
  readonly names: Names;
}

async function loadRoom({ api, id }: Visit): Promise<RoomContext> {
  const path = `/v1/rooms/${id('room')}`;
  const [room, members, roster] = await Promise.all([
    api.get<Room>(path),
    api.list<Member>(`${path}/members`),
    api.list<RosterEntry>(`${path}/roster`, { limit: 200 }),
  ]);
  return { room, roster, names: namesOf(members, roster) };
}

async function messagePreview(visit: Visit): Promise<Page> {
  return messagePage(await loadRoom(visit), visit, null);
}

function messagePage({ room, roster, names }: RoomContext, visit: Visit, problem: ShownProblem | null): Page {
  const text = fieldOf(visit.form, 'text');
  const addressees = roster.map(({ agent: agentId, slug, name }) => ({ agentId, slug, name }));
  const { agentIds } = findMentions(text, addressees);
  return {
    title: 'Preview',
    status: problem === null ? 200 : 400,
    body: (
      <>
        {problem && <ProblemBox problem={problem} />}
        <Addressed room={room} names={names} agentIds={agentIds} roster={roster} />
        <form method="post" action={PATHS.inRoom(room.id, 'send')} class="card">
          <Csrf token={visit.user.csrf} />
          <Once name={visit.once} />
          <input type="hidden" name="type" value="message" />
          <h2>Message</h2>
          <p class="text" id="preview">
            {text}
          </p>
          <input type="hidden" name="text" value={text} />
          <button>Send to {room.name}</button>
        </form>
        <form method="post" action={PATHS.inRoom(room.id, 'message')}>
          <Csrf token={visit.user.csrf} />
          <label for="text">Edit</label>
          <textarea id="text" name="text" required>
            {text}
          </textarea>
          <div class="buttons">
            <button class="quiet">Update preview</button>
            <a href={PATHS.room(room.id)}>Cancel</a>
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
        'Addresses no agent. No agent is woken. Everyone in the room can read it.'
      ) : (
        <>
          Addressed agents:
          <ul>
            {found.map((entry) => (
              <li>
                <strong>{entry.name}</strong> <code>@{entry.slug}</code> of {names.company(entry.company)}
              </li>
            ))}
          </ul>
          Each of them that is always on is woken and uses 1 of {room.run_allowance} remaining runs of the room.
        </>
      )}
      {room.paused_at !== null && ' The room is paused, so no agent is woken.'}
    </div>
  );
}

const TASK_FIELDS = ['to', 'goal', 'criteria', 'priority', 'deadline'] as const;

function taskForm({ room, roster, names }: RoomContext, visit: Visit, problem: ShownProblem | null): Page {
  const { form, user } = visit;
  return {
    title: `New task in ${room.name}`,
    status: problem === null ? 200 : 400,
    body: (
      <>
        {problem && <ProblemBox problem={problem} />}
        <form method="post" action={PATHS.inRoom(room.id, 'task')} class="card">
          <Csrf token={user.csrf} />
          <label for="to">Assign to</label>
          <select id="to" name="to" required>
            {roster.map(({ slug, name, company }) => (
              <option value={slug} selected={slug === form.get('to')}>
                {`${name} (@${slug}) of ${names.company(company)}`}
              </option>
            ))}
          </select>
          <label for="goal">Goal</label>
          <textarea id="goal" name="goal" required>
            {fieldOf(form, 'goal')}
          </textarea>
          <label for="criteria">Acceptance criteria (one per line)</label>
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
          <label for="deadline">Deadline (optional)</label>
          <input id="deadline" name="deadline" type="date" value={fieldOf(form, 'deadline')} />
          <div class="buttons">
            <button>Preview</button>
            <a href={PATHS.room(room.id)}>Cancel</a>
          </div>
        </form>
      </>
    ),
  };
}

async function taskPreview(visit: Visit): Promise<Page> {
  const { room, roster, names } = await loadRoom(visit);
  const { form, user, once } = visit;
  const to = roster.find(({ slug }) => slug === form.get('to'));
  if (to === undefined || fieldOf(form, 'goal').trim() === '') {
    const detail = to === undefined ? 'Choose an agent of this room.' : 'Enter a goal.';
    return taskForm({ room, roster, names }, visit, { code: 'invalid_input', title: 'Missing input', detail });
  }
  const task = taskOf(form);
  return {
    title: 'Preview',
    body: (
      <>
        <Addressed room={room} names={names} agentIds={[to.agent]} roster={roster} />
        <form method="post" action={PATHS.inRoom(room.id, 'send')} class="card">
          <Csrf token={user.csrf} />
          <Once name={once} />
          <input type="hidden" name="type" value="task" />
          {TASK_FIELDS.map((name) => (
            <input type="hidden" name={name} value={fieldOf(form, name)} />
          ))}
          <h2>Task</h2>
          <p class="text">{task.goal}</p>
          <ul>
            {task.acceptance_criteria.map((criterion) => (
              <li>{criterion}</li>
            ))}
          </ul>
          <p class="meta">
            <span>{task.priority} priority</span>
            {task.deadline !== null && <span>due {task.deadline}</span>}
          </p>
          <button>Send to {to.name}</button>
        </form>
        <p>
          <a href={PATHS.room(room.id)}>Cancel</a>
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

/** Posts the event. The form's idempotency key prevents a second event if the form is sent twice. */
async function postEvent(visit: Visit): Promise<Reply> {
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
    // Show the form again with the entered text and the problem.
    const context = await loadRoom(visit);
    return isTask ? taskForm(context, visit, error.problem) : messagePage(context, visit, error.problem);
  }
}
