// The page of a room: its events with the newest last, and its tasks, memory, files and agents.

import type { Express } from 'express';
import { Csrf, Empty, Once, Time, Word, type Page } from '../page';
import { PATHS } from '../paths';
import type { Member, MemoryEntry, Room, RoomEvent, RoomFile, RosterEntry, Task, Wake } from '../resources';
import { handleGet, handleForm, type ConsoleDeps, type Reply, type Visit } from '../visit';
import { EventItem, TaskFacts, type Names } from './room-events';
import { RoomState } from './rooms';

/** Events per page; a link leads to older ones. */
const EVENTS_PER_PAGE = 60;
/** Entries per list in the side column. */
const ENTRIES_PER_LIST = 30;

export function mountRoom(app: Express, deps: ConsoleDeps): void {
  app.get(`${PATHS.rooms}/:room`, handleGet(deps, roomPage));
  app.post(`${PATHS.rooms}/:room/pause`, ...handleForm(deps, pauseOrResume('pause')));
  app.post(`${PATHS.rooms}/:room/resume`, ...handleForm(deps, pauseOrResume('resume')));
}

function pauseOrResume(action: 'pause' | 'resume') {
  return async ({ api, id, form }: Visit): Promise<Reply> => {
    await api.post(`/v1/rooms/${id('room')}/${action}`, undefined, form.get('once') ?? undefined);
    return { redirect: PATHS.room(id('room')) };
  };
}

async function roomPage(visit: Visit): Promise<Page> {
  const { api, id, query } = visit;
  const path = `/v1/rooms/${id('room')}`;
  const searchText = query.get('q')?.trim() ?? '';
  const room = await api.get<Room>(path);
  const [members, roster, tasks, files, memory, wakes] = await Promise.all([
    api.list<Member>(`${path}/members`),
    api.list<RosterEntry>(`${path}/roster`, { limit: 200 }),
    api.list<Task>(`${path}/tasks`, { order: 'desc', limit: ENTRIES_PER_LIST }),
    api.list<RoomFile>(`${path}/files`, { order: 'desc', limit: ENTRIES_PER_LIST }),
    api.list<MemoryEntry>(
      `${path}/memory`,
      searchText === '' ? { order: 'desc', limit: ENTRIES_PER_LIST } : { q: searchText, limit: ENTRIES_PER_LIST },
    ),
    api.list<Wake>('/v1/wakes', { room: room.id, state: 'suppressed', order: 'desc', limit: EVENTS_PER_PAGE }),
  ]);
  const upTo = Math.min(wholeNumber(query.get('up_to')) ?? room.last_seq, room.last_seq);
  const after = Math.max(0, upTo - EVENTS_PER_PAGE);
  const loaded = await api.list<RoomEvent>(`${path}/events`, { after, limit: EVENTS_PER_PAGE });
  const isNewest = upTo === room.last_seq;
  // The newest page includes events that were added after the room was loaded.
  const events = isNewest ? loaded : loaded.filter((event) => event.seq <= upTo);
  const reasons = new Map(wakes.map(({ id: wake, reason }) => [wake, reason]));
  const names: Names = { ...namesOf(members, roster), reason: (wake) => reasons.get(wake) ?? undefined };
  const byId = new Map(tasks.map((task) => [task.id, task]));
  return {
    title: room.name,
    ...(isNewest && { live: `${PATHS.inRoom(room.id, 'news')}?after=${events.at(-1)?.seq ?? room.last_seq}` }),
    body: (
      <>
        <div id="state" data-live-part>
          <p class="meta">
            <span>Host: {names.company(room.host)}</span>
            <span>{room.run_allowance} runs left</span>
            <span>On crash: {room.on_crash}</span>
            <RoomState room={room} />
          </p>
        </div>
        <div class="columns">
          <div>
            <section aria-labelledby="activity-title">
              <h2 id="activity-title">Activity</h2>
              {after > 0 && (
                <p>
                  <a href={`${PATHS.room(room.id)}?up_to=${after}`}>Older</a>
                </p>
              )}
              <div role="log" aria-labelledby="activity-title">
                <ol class="plain-list" id="events" data-live-part>
                  {events.map((event) => (
                    <EventItem event={event} room={room.id} names={names} tasks={byId} />
                  ))}
                </ol>
              </div>
              {!isNewest && (
                <p>
                  <a href={PATHS.room(room.id)}>Newest</a>
                </p>
              )}
            </section>
            {room.closed_at === null && <MessageForm room={room} visit={visit} />}
          </div>
          <div>
            <Tasks tasks={tasks} names={names} />
            <Memory entries={memory} searchText={searchText} room={room.id} names={names} />
            <Files files={files} room={room.id} names={names} />
            <Roster roster={roster} names={names} />
            {room.closed_at === null && <PauseForm room={room} visit={visit} />}
          </div>
        </div>
      </>
    ),
  };
}

export function namesOf(members: readonly Member[], roster: readonly RosterEntry[]): Names {
  const companies = new Map(members.map(({ company, name }) => [company, name]));
  const agents = new Map(roster.map(({ agent, name }) => [agent, name]));
  return {
    company: (id) => (id === null ? '' : (companies.get(id) ?? 'a company that left')),
    agent: (id) => agents.get(id) ?? 'an agent that left',
  };
}

function MessageForm({ room, visit }: { room: Room; visit: Visit }) {
  return (
    <section aria-labelledby="write-title">
      <h2 id="write-title">New message</h2>
      <form method="post" action={PATHS.inRoom(room.id, 'message')} class="card">
        <Csrf token={visit.user.csrf} />
        <label for="text">Message</label>
        <textarea id="text" name="text" required aria-describedby="about-text" />
        <p class="hint" id="about-text">
          <code>@name</code> addresses an agent. The preview shows the addressed agents.
        </p>
        <div class="buttons">
          <button>Preview</button>
          <a class="button quiet" href={PATHS.inRoom(room.id, 'task')}>
            Send a task instead
          </a>
        </div>
      </form>
    </section>
  );
}

function Tasks({ tasks, names }: { tasks: readonly Task[]; names: Names }) {
  return (
    <section aria-labelledby="tasks-title">
      <h2 id="tasks-title">Tasks</h2>
      <div id="tasks" data-live-part>
        {tasks.length === 0 && <Empty>No tasks yet.</Empty>}
        {tasks.map((task) => (
          <div class="card" id={task.id}>
            <p class="meta">
              <strong>{names.agent(task.recipient)}</strong>
              <span>from {task.sender.name}</span>
              <Time at={task.created_at} />
            </p>
            <TaskFacts task={task} />
          </div>
        ))}
      </div>
    </section>
  );
}

function Memory(props: { entries: readonly MemoryEntry[]; searchText: string; room: string; names: Names }) {
  const { entries, searchText, room, names } = props;
  return (
    <section aria-labelledby="memory-title">
      <h2 id="memory-title">Memory</h2>
      <form method="get" action={PATHS.room(room)} class="search" role="search">
        <div>
          <label for="q">Search memory</label>
          <input id="q" name="q" type="search" value={searchText} maxlength={500} />
        </div>
        <button class="quiet">Search</button>
      </form>
      {searchText !== '' && (
        <p>
          {entries.length} results for “{searchText}”. <a href={PATHS.room(room)}>Show all</a>
        </p>
      )}
      <div id="memory" data-live-part>
        {entries.length === 0 && (
          <Empty>{searchText === '' ? 'No memory entries yet.' : 'No memory entry matches. Try fewer words.'}</Empty>
        )}
        {entries.map((entry) => (
          <div class="card" id={entry.id}>
            {'content' in entry ? (
              <>
                <p class="meta">
                  <strong>{entry.category}</strong>
                  <span>{entry.author.name}</span>
                  <Time at={entry.created_at} />
                  {entry.visibility === 'private' && <span class="word plain">private</span>}
                </p>
                <p class="text">{entry.redacted_at === null ? entry.content : 'Redacted.'}</p>
                {entry.tags.length > 0 && <p class="hint">{entry.tags.join(' · ')}</p>}
              </>
            ) : (
              <p class="hint">
                Private entry of {names.company(entry.company)}, <Time at={entry.created_at} />
              </p>
            )}
          </div>
        ))}
      </div>
    </section>
  );
}

function Files({ files, room, names }: { files: readonly RoomFile[]; room: string; names: Names }) {
  return (
    <section aria-labelledby="files-title">
      <h2 id="files-title">Files</h2>
      <div id="files" data-live-part>
        {files.length === 0 && <Empty>No files yet.</Empty>}
        {files.map((file) => (
          <p id={file.id}>
            {file.redacted_at === null ? <a href={PATHS.file(room, file.id)}>{file.name}</a> : 'Redacted file'}{' '}
            <Word of={file.state} />{' '}
            <span class="hint">
              {sizeOf(file.size)}, {file.author.name} of {names.company(file.company)}
            </span>
          </p>
        ))}
      </div>
    </section>
  );
}

function Roster({ roster, names }: { roster: readonly RosterEntry[]; names: Names }) {
  return (
    <section aria-labelledby="roster-title">
      <h2 id="roster-title">Agents</h2>
      {roster.length === 0 && <Empty>No agents yet.</Empty>}
      <ul class="plain-list">
        {roster.map((entry) => (
          <li class="card">
            <strong>{entry.name}</strong> <code>@{entry.slug}</code>
            <p class="meta">
              <span>{names.company(entry.company)}</span>
              {'rights' in entry &&
                Object.entries(entry.rights).map(([kind, right]) => (
                  <span>
                    {kind.replaceAll('_', ' ')}: {right}
                  </span>
                ))}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

function PauseForm({ room, visit }: { room: Room; visit: Visit }) {
  const paused = room.paused_at !== null;
  return (
    <section aria-labelledby="pause-title">
      <h2 id="pause-title">{paused ? 'Paused' : 'Pause'}</h2>
      <form method="post" action={PATHS.inRoom(room.id, paused ? 'resume' : 'pause')}>
        <Csrf token={visit.user.csrf} />
        <Once name={visit.once} />
        <p class="hint">
          {paused ? 'No agent is woken in this room.' : 'In a paused room no agent is woken. Open runs continue.'}
        </p>
        <button class="quiet">{paused ? 'Resume the room' : 'Pause the room'}</button>
      </form>
    </section>
  );
}

function sizeOf(bytes: number): string {
  return bytes < 1_048_576 ? `${Math.ceil(bytes / 1_024)} KB` : `${(bytes / 1_048_576).toFixed(1)} MB`;
}

function wholeNumber(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}
