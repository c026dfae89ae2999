// What waits for the yes of a person's company, over all its rooms: looked at as it was frozen, and decided in two steps.
// A decision is shown as what the API recorded, never as what was asked for.

import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { Express } from 'express';
import { Csrf, Empty, Once, Table, Time, Word, type Page } from '../page';
import { PATHS } from '../paths';
import { Refused, type Page as ListPage } from '../routes-client';
import type { HeldAction, Message, Room, Task } from '../resources';
import { shows, takes, type ConsoleDeps, type Reply, type Visit } from '../visit';
import { ENDINGS_SAID } from './room-events';

type Decision = 'approve' | 'decline';

export function mountHeldActions(app: Express, deps: ConsoleDeps): void {
  app.get(PATHS.heldActions, shows(deps, heldActionsPage));
  app.get(`${PATHS.heldActions}/:held`, shows(deps, heldActionPage));
  app.get(`${PATHS.heldActions}/:held/approve`, shows(deps, confirmPage('approve')));
  app.get(`${PATHS.heldActions}/:held/decline`, shows(deps, confirmPage('decline')));
  app.post(`${PATHS.heldActions}/:held/decision`, ...takes(deps, decide));
}

const STATES = ['held', 'approved', 'declined', 'expired', 'superseded', 'executed', 'failed'] as const;

async function heldActionsPage({ api, query }: Visit): Promise<Page> {
  const state = STATES.find((one) => one === query.get('state')) ?? 'held';
  const cursor = query.get('cursor') ?? undefined;
  const [actions, rooms, agents] = await Promise.all([
    api.get<ListPage<HeldAction>>('/v1/held-actions', { state, order: state === 'held' ? 'asc' : 'desc', cursor }),
    api.list<Room>('/v1/rooms', { limit: 200, order: 'desc' }),
    api.list<{ id: string; name: string }>('/v1/agents', { limit: 200, order: 'desc' }),
  ]);
  const nameOf = (list: readonly { id: string; name: string }[], id: string): string =>
    list.find((one) => one.id === id)?.name ?? id;
  return {
    title: 'Held actions',
    live: PATHS.news,
    body: (
      <>
        <p>What your agents want to do and may not without a yes of a person of your company.</p>
        <nav aria-label="By state">
          {STATES.map((one) => (
            <a href={`${PATHS.heldActions}?state=${one}`} aria-current={one === state ? 'page' : undefined}>
              {one}
            </a>
          ))}
        </nav>
        <div id="held-actions" data-live-part>
          {actions.data.length === 0 ? (
            <Empty>{state === 'held' ? 'Nothing waits for your company’s yes.' : `No action is ${state}.`}</Empty>
          ) : (
            <Table caption={`Actions that are ${state}`} head={['What', 'Agent', 'Room', 'Since', 'Until', 'State']}>
              {actions.data.map((action) => (
                <tr id={action.id}>
                  <td>
                    <a href={PATHS.heldAction(action.id)}>{KINDS[action.kind]}</a>
                  </td>
                  <td>{nameOf(agents, action.agent)}</td>
                  <td>{nameOf(rooms, action.room)}</td>
                  <td>
                    <Time at={action.opened_at} />
                  </td>
                  <td>
                    <Time at={action.expires_at} />
                  </td>
                  <td>
                    <Word of={action.state} />
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </div>
        {actions.next_cursor !== null && (
          <p>
            <a href={`${PATHS.heldActions}?state=${state}&cursor=${encodeURIComponent(actions.next_cursor)}`}>More</a>
          </p>
        )}
      </>
    ),
  };
}

const KINDS: Readonly<Record<HeldAction['kind'], string>> = {
  reply: 'post a reply',
  memory: 'write to memory',
  task_update: 'answer a task',
  task_send: 'send a task',
};

/** What a yes does, and what a no does, in words. */
const EFFECTS: Readonly<Record<HeldAction['kind'], Readonly<Record<Decision, string>>>> = {
  reply: {
    approve: 'The reply is posted to the room, word for word as it stands here, and everybody in it can read it.',
    decline: 'The reply is not posted, and nothing that the run planned after it is done.',
  },
  memory: {
    approve: 'The line is written to the room’s memory, where it stays.',
    decline: 'The line is not written. The rest of the run goes on.',
  },
  task_update: {
    approve: 'The task is answered in the agent’s name, and whoever sent it is told.',
    decline: 'The task is not answered, and stays open. The rest of the run goes on.',
  },
  task_send: {
    approve: 'The task is sent to the agent that it names, which is woken by it if it is always on.',
    decline: 'The task is not sent. The rest of the run goes on.',
  },
};

async function heldActionPage(visit: Visit): Promise<Page> {
  const action = await load(visit);
  return { ...(await shownAction(visit, action, null)), live: PATHS.news };
}

function load({ api, id }: Visit): Promise<HeldAction> {
  return api.get<HeldAction>(`/v1/held-actions/${id('held')}`);
}

async function shownAction(visit: Visit, action: HeldAction, notice: Notice | null): Promise<Page> {
  const { api } = visit;
  const [room, message, tasks] = await Promise.all([
    api.find<Room>(`/v1/rooms/${action.room}`),
    api.find<Message>(`/v1/rooms/${action.room}/messages/${action.message}`),
    api.find<ListPage<Task>>(`/v1/rooms/${action.room}/tasks`, { recipient: action.agent, order: 'desc', limit: 20 }),
  ]);
  return {
    title: `To ${KINDS[action.kind]}`,
    ...(notice !== null && { status: notice.status }),
    body: (
      <>
        {notice !== null && (
          <div class={`box ${notice.tone}`} role="alert" id="notice">
            {notice.says}
          </div>
        )}
        <div id="standing" data-live-part>
          <Standing action={action} />
        </div>
        <section aria-labelledby="frozen-title">
          <h2 id="frozen-title">The action, frozen</h2>
          <Frozen action={action} />
        </section>
        {action.state === 'held' && (
          <p class="buttons">
            <a class="button" href={PATHS.heldAction(action.id, '/approve')}>
              Approve…
            </a>
            <a class="button danger" href={PATHS.heldAction(action.id, '/decline')}>
              Decline…
            </a>
          </p>
        )}
        <section aria-labelledby="asked-title">
          <h2 id="asked-title">What asked for it</h2>
          {message === null ? (
            <Empty>The message that woke the agent can’t be read any more.</Empty>
          ) : (
            <div class="card">
              <p class="meta">
                <strong>{message.author.name}</strong>
                <Time at={message.created_at} />
              </p>
              <p class="said">{message.redacted_at === null ? message.text : 'Redacted.'}</p>
            </div>
          )}
          <p>
            <a href={PATHS.run(action.run)}>The run that wants to do it</a>
          </p>
        </section>
        <section aria-labelledby="now-title">
          <h2 id="now-title">The room now</h2>
          {room === null ? (
            <Empty>Your company is not in this room any more.</Empty>
          ) : (
            <>
              <p>
                <a href={PATHS.room(room.id)}>{room.name}</a>: {room.last_seq} events
                {room.closed_at !== null ? ', closed' : room.paused_at !== null ? ', paused' : ''}.
              </p>
              <p>
                {(tasks?.data ?? []).filter(({ state }) => state === 'pending' || state === 'in_progress').length} open
                tasks of this agent.
              </p>
            </>
          )}
        </section>
      </>
    ),
  };
}

/** How it stands with an action, in one sentence. */
function Standing({ action }: { action: HeldAction }) {
  const by = action.decided_by === null ? '' : ` by ${action.decided_by.name}`;
  return (
    <div class={`box ${action.state === 'held' ? 'waiting' : ''}`}>
      <Word of={action.state} /> {SAID[action.state](by, action)}
      {action.decided_at !== null && (
        <>
          {' '}
          Decided{by} on <Time at={action.decided_at} />.
        </>
      )}
    </div>
  );
}

const SAID: Readonly<Record<HeldAction['state'], (by: string, action: HeldAction) => unknown>> = {
  held: (_, { expires_at: until }) => (
    <>
      It waits for a person of your company. {leftUntil(until)}, until <Time at={until} />; then it expires, and is not
      done.
    </>
  ),
  approved: (by) => `Approved${by}, and not carried out yet.`,
  executed: (by) => `Approved${by}, and carried out.`,
  declined: (by) => `Declined${by}. It was not done.`,
  expired: () => 'Nobody decided in time. It was not done, and nobody declined it.',
  superseded: (_, { run_ending: ending }) =>
    `It was not done: what it was meant for did not stand any more${ending === null ? '' : `, the run ended (${ENDINGS_SAID[ending] ?? ending})`}.`,
  failed: (by) => `Approved${by}, and carrying it out failed. It was not done.`,
};

function leftUntil(until: string): string {
  const minutes = Math.floor((Date.parse(until) - Date.now()) / 60_000);
  if (minutes < 1) return 'Less than a minute is left';
  const hours = Math.floor(minutes / 60);
  return hours < 1 ? `${minutes} minutes are left` : `${hours} hours and ${minutes % 60} minutes are left`;
}

/** The very text that the hash is of, and whether it is. */
function Frozen({ action }: { action: HeldAction }) {
  if (action.action === null) return <Empty>It was redacted. Its hash is {action.hash}.</Empty>;
  const exact = canonicalize(action.action) ?? '';
  const isExact = createHash('sha256').update(exact).digest('hex') === action.hash;
  return (
    <>
      <dl class="facts card">
        {Object.entries(action.action).map(([name, value]) => (
          <>
            <dt>{name.replaceAll('_', ' ')}</dt>
            <dd class="said">{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
          </>
        ))}
      </dl>
      <details open>
        <summary>As the hash covers it</summary>
        <pre id="exact">{exact}</pre>
      </details>
      <p class={isExact ? 'hint' : 'box bad'}>
        {isExact
          ? 'The text above has the SHA-256 that a yes is a yes to: '
          : 'The text above does not have the SHA-256 '}
        <code>{action.hash}</code>
      </p>
    </>
  );
}

function confirmPage(decision: Decision) {
  return async (visit: Visit): Promise<Page> => {
    const action = await load(visit);
    if (action.state !== 'held') return shownAction(visit, action, tooLate(action));
    const yes = decision === 'approve';
    return {
      title: yes ? 'Approve this?' : 'Decline this?',
      body: (
        <>
          <div class="box waiting" id="effect">
            <strong>{yes ? 'If you approve:' : 'If you decline:'}</strong> {EFFECTS[action.kind][decision]} A decision
            is final.
          </div>
          <Frozen action={action} />
          <form method="post" action={PATHS.heldAction(action.id, '/decision')}>
            <Csrf token={visit.who.csrf} />
            <Once name={visit.once} />
            <input type="hidden" name="decision" value={decision} />
            <input type="hidden" name="hash" value={action.hash} />
            <div class="buttons">
              <button class={yes ? '' : 'danger'}>{yes ? `Approve: ${KINDS[action.kind]}` : 'Decline'}</button>
              <a href={PATHS.heldAction(action.id)}>Go back without deciding</a>
            </div>
          </form>
        </>
      ),
    };
  };
}

interface Notice {
  readonly tone: 'good' | 'bad';
  readonly status: number;
  readonly says: string;
}

function tooLate(action: HeldAction): Notice {
  return { tone: 'bad', status: 409, says: `You decided nothing: meanwhile this action is ${action.state}.` };
}

async function decide(visit: Visit): Promise<Reply> {
  const { api, id, form, who } = visit;
  const decision = form.get('decision');
  const body = { decision, hash: form.get('hash') };
  try {
    const path = `/v1/held-actions/${id('held')}/decision`;
    const recorded = await api.post<HeldAction>(path, body, form.get('once') ?? undefined);
    const mine = recorded.decided_by?.id === who.person.keyId && recorded.decision === decision;
    const says = mine
      ? `Your decision is recorded: ${decision === 'approve' ? 'approved' : 'declined'}.`
      : `Somebody else decided it before you: ${recorded.decided_by?.name ?? 'nobody'}, ${recorded.decision ?? 'nothing'}.`;
    return await shownAction(visit, recorded, { tone: mine ? 'good' : 'bad', status: 200, says });
  } catch (error) {
    if (!(error instanceof Refused) || (error.status !== 409 && error.status !== 410)) throw error;
    const action = await load(visit);
    const changed = { tone: 'bad', status: 409, says: `You decided nothing: ${error.problem.detail}.` } as const;
    return shownAction(visit, action, action.state === 'held' ? changed : { ...tooLate(action), status: error.status });
  }
}
