// The held actions of a company in all its rooms, and the two pages on which a person decides one. The result page shows the
// decision that the API recorded, which can differ from the one that was sent.

import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { Express } from 'express';
import { Csrf, Empty, Once, Table, Time, Word, type Page } from '../page';
import { PATHS } from '../paths';
import { Refused, type Page as ListPage } from '../routes-client';
import type { HeldAction, Message, Room, Task } from '../resources';
import { handleGet, handleForm, type ConsoleDeps, type Reply, type Visit } from '../visit';
import { ENDING_TEXTS } from './room-events';

type Decision = 'approve' | 'decline';

export function mountHeldActions(app: Express, deps: ConsoleDeps): void {
  app.get(PATHS.heldActions, handleGet(deps, heldActionsPage));
  app.get(`${PATHS.heldActions}/:held`, handleGet(deps, heldActionPage));
  app.get(`${PATHS.heldActions}/:held/approve`, handleGet(deps, confirmPage('approve')));
  app.get(`${PATHS.heldActions}/:held/decline`, handleGet(deps, confirmPage('decline')));
  app.post(`${PATHS.heldActions}/:held/decision`, ...handleForm(deps, decide));
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
    title: 'Approvals',
    live: PATHS.news,
    body: (
      <>
        <p>Actions of your company’s agents that need the approval of a person.</p>
        <nav aria-label="By state">
          {STATES.map((one) => (
            <a href={`${PATHS.heldActions}?state=${one}`} aria-current={one === state ? 'page' : undefined}>
              {one}
            </a>
          ))}
        </nav>
        <div id="held-actions" data-live-part>
          {actions.data.length === 0 ? (
            <Empty>{state === 'held' ? 'No actions waiting for approval.' : `No ${state} actions.`}</Empty>
          ) : (
            <Table
              caption={state === 'held' ? 'Actions waiting for approval' : `Actions: ${state}`}
              head={['Action', 'Agent', 'Room', 'Held since', 'Expires', 'State']}
            >
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
  task_update: 'respond to a task',
  task_send: 'send a task',
};

/** The effect of each decision. */
const EFFECTS: Readonly<Record<HeldAction['kind'], Readonly<Record<Decision, string>>>> = {
  reply: {
    approve: 'The reply is posted to the room exactly as shown here, and everyone in the room can read it.',
    decline: 'The reply is not posted, and the later steps of the run are not executed.',
  },
  memory: {
    approve: 'The entry is written to the room’s memory and cannot be edited.',
    decline: 'The entry is not written. The run continues with its other steps.',
  },
  task_update: {
    approve: 'The response is sent in the agent’s name, and the sender of the task receives it.',
    decline: 'The response is not sent, and the task stays open. The run continues with its other steps.',
  },
  task_send: {
    approve: 'The task is sent to the named agent, which is woken if it is always on.',
    decline: 'The task is not sent. The run continues with its other steps.',
  },
};

async function heldActionPage(visit: Visit): Promise<Page> {
  const action = await load(visit);
  return { ...(await actionPage(visit, action, null)), live: PATHS.news };
}

function load({ api, id }: Visit): Promise<HeldAction> {
  return api.get<HeldAction>(`/v1/held-actions/${id('held')}`);
}

async function actionPage(visit: Visit, action: HeldAction, notice: Notice | null): Promise<Page> {
  const { api } = visit;
  const [room, message, tasks] = await Promise.all([
    api.find<Room>(`/v1/rooms/${action.room}`),
    api.find<Message>(`/v1/rooms/${action.room}/messages/${action.message}`),
    api.find<ListPage<Task>>(`/v1/rooms/${action.room}/tasks`, { recipient: action.agent, order: 'desc', limit: 20 }),
  ]);
  return {
    title: `Agent action: ${KINDS[action.kind]}`,
    ...(notice !== null && { status: notice.status }),
    body: (
      <>
        {notice !== null && (
          <div class={`box ${notice.tone}`} role="alert" id="notice">
            {notice.message}
          </div>
        )}
        <div id="action-state" data-live-part>
          <ActionState action={action} />
        </div>
        <section aria-labelledby="action-title">
          <h2 id="action-title">Action</h2>
          <ActionContent action={action} />
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
        <section aria-labelledby="cause-title">
          <h2 id="cause-title">Message that woke the agent</h2>
          {message === null ? (
            <Empty>The message is no longer available.</Empty>
          ) : (
            <div class="card">
              <p class="meta">
                <strong>{message.author.name}</strong>
                <Time at={message.created_at} />
              </p>
              <p class="text">{message.redacted_at === null ? message.text : 'Redacted.'}</p>
            </div>
          )}
          <p>
            <a href={PATHS.run(action.run)}>Run of this action</a>
          </p>
        </section>
        <section aria-labelledby="room-title">
          <h2 id="room-title">Room</h2>
          {room === null ? (
            <Empty>Your company has left this room.</Empty>
          ) : (
            <>
              <p>
                <a href={PATHS.room(room.id)}>{room.name}</a>: {room.last_seq} events
                {room.closed_at !== null ? ', closed' : room.paused_at !== null ? ', paused' : ''}.
              </p>
              <p>
                {(tasks?.data ?? []).filter(({ state }) => state === 'pending' || state === 'in_progress').length} open
                tasks for this agent.
              </p>
            </>
          )}
        </section>
      </>
    ),
  };
}

/** The state of an action, in one sentence. */
function ActionState({ action }: { action: HeldAction }) {
  const by = action.decided_by === null ? '' : ` by ${action.decided_by.name}`;
  return (
    <div class={`box ${action.state === 'held' ? 'waiting' : ''}`}>
      <Word of={action.state} /> {STATE_TEXTS[action.state](by, action)}
      {action.decided_at !== null && (
        <>
          {' '}
          Decided{by} on <Time at={action.decided_at} />.
        </>
      )}
    </div>
  );
}

const STATE_TEXTS: Readonly<Record<HeldAction['state'], (by: string, action: HeldAction) => unknown>> = {
  held: (_, { expires_at: until }) => (
    <>
      Waiting for approval by a person of your company. It expires in {timeUntil(until)}, at <Time at={until} />; after
      that it is not executed.
    </>
  ),
  approved: (by) => `Approved${by}, not yet executed.`,
  executed: (by) => `Approved${by} and executed.`,
  declined: (by) => `Declined${by}. It was not executed.`,
  expired: () => 'It expired without a decision and was not executed.',
  superseded: (_, { run_ending: ending }) =>
    `It was not executed, because the run no longer needed it${ending === null ? '' : `; ending of the run: ${ENDING_TEXTS[ending] ?? ending}`}.`,
  failed: (by) => `Approved${by}, but the execution failed.`,
};

function timeUntil(until: string): string {
  const minutes = Math.floor((Date.parse(until) - Date.now()) / 60_000);
  if (minutes < 1) return 'less than a minute';
  const hours = Math.floor(minutes / 60);
  return hours < 1 ? `${minutes} minutes` : `${hours} hours and ${minutes % 60} minutes`;
}

/** The fields of the action, its canonical JSON, and whether the SHA-256 of that JSON matches the recorded hash. */
function ActionContent({ action }: { action: HeldAction }) {
  if (action.action === null) return <Empty>The action was redacted. Its SHA-256 is {action.hash}.</Empty>;
  const canonicalJson = canonicalize(action.action) ?? '';
  const isExact = createHash('sha256').update(canonicalJson).digest('hex') === action.hash;
  return (
    <>
      <dl class="facts card">
        {Object.entries(action.action).map(([name, value]) => (
          <>
            <dt>{name.replaceAll('_', ' ')}</dt>
            <dd class="text">{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
          </>
        ))}
      </dl>
      <details open>
        <summary>Raw JSON</summary>
        <pre id="exact">{canonicalJson}</pre>
      </details>
      <p class={isExact ? 'hint' : 'box bad'}>
        {isExact ? 'You approve exactly this JSON. SHA-256: ' : 'The JSON above does not match its recorded SHA-256: '}
        <code>{action.hash}</code>
      </p>
    </>
  );
}

function confirmPage(decision: Decision) {
  return async (visit: Visit): Promise<Page> => {
    const action = await load(visit);
    if (action.state !== 'held') return actionPage(visit, action, alreadyDecided(action));
    const approves = decision === 'approve';
    return {
      title: approves ? 'Approve this action?' : 'Decline this action?',
      body: (
        <>
          <div class="box waiting" id="effect">
            <strong>{approves ? 'If you approve:' : 'If you decline:'}</strong> {EFFECTS[action.kind][decision]} The
            decision is final.
          </div>
          <ActionContent action={action} />
          <form method="post" action={PATHS.heldAction(action.id, '/decision')}>
            <Csrf token={visit.user.csrf} />
            <Once name={visit.once} />
            <input type="hidden" name="decision" value={decision} />
            <input type="hidden" name="hash" value={action.hash} />
            <div class="buttons">
              <button class={approves ? '' : 'danger'}>
                {approves ? `Approve: ${KINDS[action.kind]}` : 'Decline'}
              </button>
              <a href={PATHS.heldAction(action.id)}>Cancel</a>
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
  readonly message: string;
}

function alreadyDecided(action: HeldAction): Notice {
  const result = action.decision === null ? action.state : `${action.decision}d`;
  const by = action.decided_by === null ? '' : ` by ${action.decided_by.name}`;
  return { tone: 'bad', status: 409, message: `Already ${result}${by}; your click changed nothing.` };
}

async function decide(visit: Visit): Promise<Reply> {
  const { api, id, form, user } = visit;
  const decision = form.get('decision');
  const body = { decision, hash: form.get('hash') };
  try {
    const path = `/v1/held-actions/${id('held')}/decision`;
    const recorded = await api.post<HeldAction>(path, body, form.get('once') ?? undefined);
    const isOwn = recorded.decided_by?.id === user.person.keyId && recorded.decision === decision;
    const message = `Your decision is recorded: ${decision === 'approve' ? 'approved' : 'declined'}.`;
    return await actionPage(
      visit,
      recorded,
      isOwn ? { tone: 'good', status: 200, message } : { ...alreadyDecided(recorded), status: 200 },
    );
  } catch (error) {
    if (!(error instanceof Refused) || (error.status !== 409 && error.status !== 410)) throw error;
    const action = await load(visit);
    const message = `Your decision was not recorded: ${error.problem.detail}.`;
    const refused: Notice = { tone: 'bad', status: 409, message };
    return actionPage(
      visit,
      action,
      action.state === 'held' ? refused : { ...alreadyDecided(action), status: error.status },
    );
  }
}
