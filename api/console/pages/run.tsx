// The page of a run: its timeline as a chart and as a table, its usage, and the actions Cancel and Ask again.

import type { Express } from 'express';
import { Csrf, Once, Table, Time, Word, type Page } from '../page';
import { elapsed, LanesPicture } from '../lanes-picture';
import { laneOf } from '../lanes';
import { PATHS } from '../paths';
import type { Run, Timeline } from '../resources';
import { fieldOf, handleGet, handleForm, type ConsoleDeps, type Reply, type Visit } from '../visit';
import { ENDING_TEXTS } from './room-events';

const RUNS = '/console/runs';

export function mountRun(app: Express, deps: ConsoleDeps): void {
  app.get(`${RUNS}/:run`, handleGet(deps, runPage));
  app.get(`${RUNS}/:run/cancel`, handleGet(deps, cancelPage));
  app.post(`${RUNS}/:run/cancel`, ...handleForm(deps, cancel));
  app.post(`${RUNS}/:run/ask-again`, ...handleForm(deps, askAgain));
}

async function runPage(visit: Visit): Promise<Page> {
  const { api, id } = visit;
  const path = `/v1/runs/${id('run')}`;
  const run = await api.get<Run>(path);
  const timeline = await api.find<Timeline>(`${path}/timeline`);
  return {
    title: 'Run',
    ...(run.state === 'open' && { live: PATHS.inRoom(run.room, 'news') }),
    body: (
      <>
        <div id="run" data-live-part>
          <Summary run={run} />
        </div>
        <div id="lanes" data-live-part>
          {timeline === null ? (
            <p>This is a run of another company’s agent. Only that company can see its timeline.</p>
          ) : (
            <TimelineSection timeline={timeline} />
          )}
        </div>
        <Actions run={run} visit={visit} />
      </>
    ),
  };
}

function Summary({ run }: { run: Run }) {
  return (
    <dl class="facts card">
      <dt>Ending</dt>
      <dd>
        {run.ending === null ? (
          <>
            <Word of="open" /> It has not ended yet.
          </>
        ) : (
          <>
            <Word of={run.ending} /> {ENDING_TEXTS[run.ending]}
            {'code' in run && run.code !== null && ` (${run.code.replaceAll('_', ' ')})`}.
          </>
        )}
      </dd>
      <dt>Room</dt>
      <dd>
        <a href={PATHS.room(run.room)}>Open room</a>
      </dd>
      <dt>Run</dt>
      <dd>
        <code>{run.id}</code>
      </dd>
      {'wake' in run && <OwnFacts run={run} />}
    </dl>
  );
}

function OwnFacts({ run }: { run: Extract<Run, { wake: string }> }) {
  const { usage } = run;
  const money = Object.entries(usage.money.amounts ?? {}).map(([currency, amount]) => `${amount} ${currency}`);
  return (
    <>
      <dt>Started</dt>
      <dd>
        <Time at={run.claimed_at} />
      </dd>
      {run.closed_at !== null && (
        <>
          <dt>Ended</dt>
          <dd>
            <Time at={run.closed_at} />
          </dd>
        </>
      )}
      <dt>Model</dt>
      <dd>{run.model ?? 'no request'}</dd>
      <dt>Usage</dt>
      <dd>
        {usage.requests} {usage.requests === 1 ? 'request' : 'requests'}, {String(usage.input_tokens)} input tokens and{' '}
        {String(usage.output_tokens)} output tokens
        {money.length > 0 && `, ${money.join(' and ')}`}
      </dd>
      <dt>On crash</dt>
      <dd>{run.on_crash}</dd>
      {run.fenced_count > 0 && (
        <>
          <dt>Fenced</dt>
          <dd>
            {run.fenced_count} other {run.fenced_count === 1 ? 'execution' : 'executions'} of this run, stopped without
            effect
          </dd>
        </>
      )}
      {run.cancelled !== null && (
        <>
          <dt>Cancelled</dt>
          <dd>
            {run.cancelled.why} ({run.cancelled.by})
          </dd>
        </>
      )}
      <dt>Workflow</dt>
      <dd>
        <code>{run.temporal.workflow_id}</code>
      </dd>
    </>
  );
}

function TimelineSection({ timeline }: { timeline: Timeline }) {
  const first = timeline.data[0]?.at;
  return (
    <section aria-labelledby="timeline-title">
      <h2 id="timeline-title">Timeline</h2>
      <p class="hint">
        {timeline.history.message.charAt(0).toUpperCase() + timeline.history.message.slice(1)}. Long gaps are drawn
        shorter.
      </p>
      <LanesPicture timeline={timeline} />
      {timeline.not_done.length > 0 && (
        <>
          <h3>Steps not executed</h3>
          <ul>
            {timeline.not_done.map(({ step, state, code }) => (
              <li>
                {step}: <Word of={state} /> {code?.replaceAll('_', ' ')}
              </li>
            ))}
          </ul>
        </>
      )}
      <Table caption="Timeline entries" head={['Time', 'Since start', 'Lane', 'Event', 'Source']}>
        {timeline.data.map((entry) => (
          <tr>
            <td>
              <Time at={entry.at} />
            </td>
            <td class="number">{elapsed(Date.parse(entry.at) - Date.parse(first ?? entry.at))}</td>
            <td>{laneOf(entry)}</td>
            <td>{entry.message}</td>
            <td>{entry.source}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

function Actions({ run, visit }: { run: Run; visit: Visit }) {
  const { user, temporalUi, once } = visit;
  return (
    <section aria-labelledby="actions-title">
      <h2 id="actions-title">Actions</h2>
      <form method="post" action={PATHS.run(run.id, '/ask-again')}>
        <Csrf token={user.csrf} />
        <Once name={once} />
        <p class="hint" id="about-again">
          Posts the message or task that woke the agent again, in your name. This run does not change.
        </p>
        <div class="buttons">
          <button class="quiet" aria-describedby="about-again">
            Ask again
          </button>
          {run.state === 'open' && 'wake' in run && (
            <a class="button danger" href={PATHS.run(run.id, '/cancel')}>
              Cancel the run…
            </a>
          )}
          {'wake' in run && temporalUi !== null && (
            <a href={temporalLink(temporalUi, run.temporal)} rel="noreferrer">
              Open in the Temporal Web UI
            </a>
          )}
        </div>
      </form>
    </section>
  );
}

function temporalLink(
  { url, namespace }: { url: string; namespace: string },
  { workflow_id: workflow, run_id: run }: { workflow_id: string; run_id: string | null },
): string {
  const base = `${url.replace(/\/$/, '')}/namespaces/${encodeURIComponent(namespace)}/workflows/${encodeURIComponent(workflow)}`;
  return run === null ? base : `${base}/${encodeURIComponent(run)}/history`;
}

async function cancelPage({ api, id, user, once }: Visit): Promise<Page> {
  const run = await api.get<Run>(`/v1/runs/${id('run')}`);
  return {
    title: 'Cancel this run?',
    body: (
      <form method="post" action={PATHS.run(run.id, '/cancel')} class="card">
        <Csrf token={user.csrf} />
        <Once name={once} />
        <div class="box waiting" id="effect">
          {run.state === 'open'
            ? 'Completed steps are kept. Later steps are not executed, and actions waiting for approval are superseded. Everyone in the room sees that the run was cancelled; only your company sees the person and the reason.'
            : `The run has already ended (${run.ending ?? 'closed'}). Cancelling changes nothing.`}
        </div>
        <label for="reason">Reason (optional)</label>
        <input id="reason" name="reason" maxlength={500} />
        <div class="buttons">
          <button class="danger">Cancel the run</button>
          <a href={PATHS.run(run.id)}>Keep running</a>
        </div>
      </form>
    ),
  };
}

async function cancel({ api, id, form }: Visit): Promise<Reply> {
  const reason = fieldOf(form, 'reason').trim();
  await api.post(`/v1/runs/${id('run')}/cancel`, reason === '' ? {} : { reason }, form.get('once') ?? undefined);
  return { redirect: PATHS.run(id('run')) };
}

async function askAgain({ api, id, form }: Visit): Promise<Reply> {
  const run = await api.get<Run>(`/v1/runs/${id('run')}`);
  const posted = await api.post<{ event: string }>(
    `/v1/runs/${id('run')}/ask-again`,
    undefined,
    form.get('once') ?? undefined,
  );
  return { redirect: `${PATHS.room(run.room)}#${posted.event}` };
}
