// One trace from the HTTP request to the reply, through two processes and Temporal, as a collector receives it. Without a
// configured endpoint there is no trace, and the SDK is not loaded.

import { execFile, fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { randomBytes } from 'node:crypto';
import { createKey } from '../../prisma/store/access/keys';
import { wantsTracing } from '../../worker/telemetry/wanted';
import { closedRun, until } from '../support/run-waits';
import { startOtlpReceiver, type OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { WORKER_MAIN, workerEnv } from '../support/worker-processes';
import { createWorld, type World } from '../support/world';

const API_MAIN = join(WORKER_MAIN, '..', '..', 'api', 'main.js');
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';

let receiver: OtlpReceiver;
let model: ScriptedModel;
let world: World;
const children: ChildProcess[] = [];

beforeAll(async () => {
  receiver = await startOtlpReceiver();
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
});
afterAll(async () => {
  await Promise.all(children.map(end));
  await world.close();
  await model.stop();
  await receiver.stop();
});

async function start(main: string, env: Record<string, string>): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(main, [], { env, execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  children.push(child);
  const [ready] = (await once(child, 'message')) as [{ port: number }];
  return { child, port: ready.port };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

test('a message, its wake, its run and the reply are one trace, and no span contains message text', async () => {
  const env = {
    ...workerEnv(world, `test-${randomBytes(6).toString('hex')}`),
    API_PORT: '0',
    OPERATOR_KEY: 'o'.repeat(40),
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_BSP_SCHEDULE_DELAY: '100',
  };
  const [api] = await Promise.all([start(API_MAIN, env), start(WORKER_MAIN, { ...env, OTEL_SERVICE_NAME: 'workers' })]);
  const { token } = await world.db.transaction((tx) =>
    createKey(tx, { kind: 'person', role: 'member', name: 'Ada', companyId: world.host.id }),
  );
  // A reply that wakes another agent: its run is caused by the same request.
  model.script(answer.reply('secret words for @scout'), answer.reply('more secret words'));
  const posted = await fetch(`http://127.0.0.1:${api.port}/v1/rooms/${world.roomId}/events`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01`,
    },
    body: JSON.stringify({ type: 'message', text: '@scribe secret words of the message' }),
  });
  expect(posted.status).toBe(201);
  const { id } = (await posted.json()) as { id: string };
  const first = await closedRun(world.db, id);
  const reply = await world.db.message.findFirstOrThrow({ where: { runId: first.id } });
  await closedRun(world.db, reply.id);
  const ofTrace = (): ReceivedSpan[] => receiver.spans.filter((span) => span.traceId === TRACE_ID);
  await until(
    'the spans of both runs',
    async () => ofTrace().filter(({ name }) => name === 'RunWorkflow:agentRun').length === 2,
  );
  await Promise.all(children.map(end));

  const spans = ofTrace();
  const post = spans.find(({ name }) => name === 'POST /v1/rooms/:room/events');
  expect(post).toMatchObject({ service: 'durable-room-api', parentSpanId: 'b7ad6b7169203331' });
  const parentOf = (span: ReceivedSpan | undefined) => spans.find(({ spanId }) => spanId === span?.parentSpanId);
  const pathOf = (span: ReceivedSpan | undefined): string[] =>
    span === undefined ? [] : [...pathOf(parentOf(span)), span.name];
  const route = ['POST /v1/rooms/:room/events', 'dispatch wake', 'StartWorkflow:agentRun', 'RunWorkflow:agentRun'];
  const paths = spans.map((span) => pathOf(span).join(' > '));
  for (const activity of ['claimMessage', 'callModel', 'postReply'])
    expect(paths).toContain([...route, `StartActivity:${activity}`, `RunActivity:${activity}`].join(' > '));
  const second = [...route, 'StartActivity:postReply', 'RunActivity:postReply', ...route.slice(1)].join(' > ');
  expect(paths).toContain(second);
  expect(new Set(spans.map(({ service }) => service))).toEqual(new Set(['durable-room-api', 'workers']));
  expect(receiver.text()).not.toMatch(/secret words|sk-test-key|dr_[a-z]+_[A-Za-z0-9]{8}/);
});

test('without an endpoint no wake has a trace, and no process loads the SDK or the interceptors', async () => {
  await world.post('no agent is addressed');
  await world.post('@scribe untraced');
  const wakes = await world.db.wake.findMany({ orderBy: { id: 'desc' }, take: 1 });
  expect(wakes).toMatchObject([{ traceparent: null }]);
  const modules = ['worker/process-main.js', 'worker/dispatcher.js', 'api/app.js', 'prisma/store/rooms/room-draft.js'];
  const dist = join(WORKER_MAIN, '..', '..');
  const script = `for (const m of ${JSON.stringify(modules)}) require(${JSON.stringify(`${dist}/`)} + m);
    console.log(Object.keys(require.cache).filter((f) => /opentelemetry/.test(f)).join('\\n'))`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script]);
  expect(stdout).toMatch(/@opentelemetry\/api\//);
  expect(stdout).not.toMatch(/sdk-trace|exporter|resources|interceptors-opentelemetry/);
});

test.each([
  [{}, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }, true],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:4318/v1/traces' }, true],
  [{ OTEL_SERVICE_NAME: 'ours' }, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', OTEL_SDK_DISABLED: 'true' }, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', OTEL_TRACES_EXPORTER: 'none' }, false],
])('%j enables spans: %s', (env, wanted) => {
  expect(wantsTracing(env)).toBe(wanted);
});
