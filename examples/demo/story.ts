// The steps of the demo: a message, a task between two companies, and two crashes.

import { join } from 'node:path';
import { COMPILED } from '../../test/support/compiled';
import { endProcess, type Stack } from '../../worker/local/stack';
import type { ScriptedModel } from '../../test/support/scripted-model-server';
import { bold, dim, green, Narrator, red, tail } from './narrator';
import { RoomClient, type Page, type Posted, type RoomEvent, type Run } from './room-client';

/** The product's worker with a point at which it kills itself with SIGKILL. */
const CRASH_WORKER = join(COMPILED, 'test', 'support', 'crash-worker.js');

interface Cast {
  readonly roomId: string;
  readonly host: RoomClient;
  readonly guest: RoomClient;
  readonly adminKey: string;
  readonly narrator: Narrator;
}

/** Runs all steps. Returns the room and a key, for `--keep`. */
export async function runStory(stack: Stack, model: ScriptedModel): Promise<{ roomId: string; adminKey: string }> {
  const cast = await setUp(stack);
  const { narrator } = cast;
  narrator.start();
  try {
    narrator.say(bold('\n1. A message wakes an agent, which sends a task to an agent of another company\n'));
    await post(cast, '@planner where do we start?');
    await waitUntilSettled(cast, 3);

    narrator.say(bold('\n2. A worker is killed with SIGKILL between two steps'));
    narrator.say(
      dim('   The reply is posted and in the history; the memory step has not started. Another worker continues.\n'),
    );
    await crash(stack, cast, 'postReply:acknowledged', '@scout look after catering, between two steps');

    narrator.say(bold('\n3. A worker is killed with SIGKILL inside an acting step'));
    narrator.say(
      dim('   It wrote the memory entry but did not commit it. Temporal cannot know this, so the step is not'),
    );
    narrator.say(dim('   retried: Postgres shows that the step failed, and the room shows the ending of the run.\n'));
    await crash(stack, cast, 'writeMemory:inside', '@scout look after the lighting');

    narrator.say(
      bold('\n4. The next message continues the work: a new run with its own claim reads the current room\n'),
    );
    const before = (await runs(cast)).length;
    await post(cast, '@scout please look at the lighting again');
    await waitUntilSettled(cast, before + 1);
  } finally {
    await narrator.stop();
  }
  await printTotals(cast, model);
  return { roomId: cast.roomId, adminKey: cast.adminKey };
}

async function setUp(stack: Stack): Promise<Cast> {
  if (stack.operatorKey === null) throw new Error('the demo needs a new data folder');
  console.log('\nCreating two companies with an always-on agent each, and a room, through the public API:');
  const operator = new RoomClient(stack.apiUrl, stack.operatorKey);
  const names = { agents: new Map<string, string>(), companies: new Map<string, string>() };
  const enroll = async (name: string, person: string): Promise<RoomClient & { key: string }> => {
    const made = await operator.post<{ company: { id: string }; admin_key: { token: string } }>('/v1/companies', {
      name,
    });
    names.companies.set(made.company.id, name);
    const admin = operator.as(made.admin_key.token);
    const key = await admin.post<{ token: string }>('/v1/keys', { kind: 'person', role: 'admin', name: person });
    return Object.assign(operator.as(key.token), { key: key.token });
  };
  const host = await enroll('Larkspur', 'Ada');
  const guest = await enroll('Tamarack', 'Tom');
  const room = await host.post<{ id: string }>('/v1/rooms', { name: 'Launch party' });
  const invitation = await host.post<{ code: string }>(`/v1/rooms/${room.id}/invitations`, {});
  await guest.post(`/v1/rooms/${room.id}/members`, { code: invitation.code });
  await addAgent(host, room.id, 'Planner', 'autonomous', names.agents);
  await addAgent(guest, room.id, 'Scout', 'careful', names.agents);
  console.log(`  Larkspur hosts the room and adds ${bold('planner')}; Tamarack is a guest and adds ${bold('scout')}`);
  const narrator = new Narrator(room.id, [host, guest], names);
  return { roomId: room.id, host, guest, adminKey: host.key, narrator };
}

async function addAgent(
  company: RoomClient,
  roomId: string,
  name: string,
  preset: string,
  names: Map<string, string>,
): Promise<void> {
  const key = await company.post<{ id: string }>('/v1/model-keys', {
    name: 'demo',
    provider: 'scripted',
    key: 'sk-demo',
  });
  const agent = await company.post<{ id: string; slug: string }>('/v1/agents', {
    name,
    instructions: 'Be brief.',
    model: 'scripted',
    model_key: key.id,
  });
  await company.post(`/v1/rooms/${roomId}/roster`, { agent: agent.id, preset });
  names.set(agent.id, agent.slug);
}

// Runs only a worker that kills itself at the point, then starts an ordinary worker.
async function crash(stack: Stack, cast: Cast, point: string, text: string): Promise<void> {
  const before = (await runs(cast)).length;
  const ordinary = stack.workers.at(-1);
  cast.narrator.announceWait('starting a worker that will be killed, and stopping the previous worker');
  const doomed = await stack.startWorker({ CRASH_POINT: point, CRASH_ACTION: 'kill' }, CRASH_WORKER);
  if (ordinary) await endProcess(ordinary);
  const died = new Promise<void>((resolve) => doomed.once('exit', () => resolve()));
  await post(cast, text);
  cast.narrator.announceWait('waiting until the worker is killed');
  await died;
  cast.narrator.line(red('✗ SIGKILL'), red(`worker ${doomed.pid} is killed at ${point}`));
  cast.narrator.announceWait('starting another worker');
  const fresh = await stack.startWorker();
  cast.narrator.line(green('✓ worker'), green(`worker ${fresh.pid} is polling`));
  cast.narrator.announceWait('Temporal waits for the timeout of the dead worker');
  await waitUntilSettled(cast, before + 1);
}

async function post(cast: Cast, text: string): Promise<Posted> {
  const posted = await cast.host.post<Posted>(`/v1/rooms/${cast.roomId}/events`, { type: 'message', text });
  for (const wake of posted.wakes) {
    cast.narrator.line(
      '  wake',
      `#${posted.seq} wakes ${wake.slug}: the wake is ${wake.status}, written in the same transaction`,
    );
  }
  return posted;
}

async function runs(cast: Cast): Promise<Run[]> {
  const lists = await Promise.all(
    [cast.host, cast.guest].map((client) => client.get<Page<Run>>(`/v1/runs?room=${cast.roomId}&limit=200`)),
  );
  return [...new Map(lists.flatMap((list) => list.data).map((run) => [run.id, run])).values()];
}

/** Resolves when at least `count` runs exist, all runs are closed, and no wake is waiting. */
async function waitUntilSettled(cast: Cast, count: number): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const all = await runs(cast);
    const wakes = await Promise.all(
      ['pending', 'delivered'].map((state) =>
        cast.host.get<Page<unknown>>(`/v1/wakes?room=${cast.roomId}&state=${state}`),
      ),
    );
    const waiting = wakes.reduce((sum, page) => sum + page.data.length, 0);
    if (all.length >= count && waiting === 0 && all.every((run) => run.state === 'closed')) break;
    if (Date.now() > deadline) throw new Error('the runs did not end within a minute');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  // Gives the narrator time to print the last events before the next step.
  await new Promise((resolve) => setTimeout(resolve, 300));
}

async function printTotals(cast: Cast, model: ScriptedModel): Promise<void> {
  const events = await cast.host.get<Page<RoomEvent>>(`/v1/rooms/${cast.roomId}/events?after=0&limit=200`);
  const all = await runs(cast);
  const perRun = new Map<string, number>();
  for (const event of events.data) {
    if (event.type === 'message' && typeof event.data['run'] === 'string') {
      perRun.set(event.data['run'], (perRun.get(event.data['run']) ?? 0) + 1);
    }
  }
  const gapless = events.data.every((event, index) => event.seq === index + 1);
  console.log(bold('\nThe room at the end\n'));
  console.log(`  ${events.data.length} room events, numbered ${gapless ? 'without gaps' : red('WITH GAPS')}`);
  console.log(
    `  ${all.length} messages woke an agent: ${all.length} claims, ${all.length} runs, ${model.requests.length} model requests`,
  );
  console.log(`  most replies posted by one run: ${Math.max(...perRun.values())}`);
  for (const run of all) {
    if (run.ending !== 'replied' && run.ending !== 'silent') {
      console.log(
        `  run ${tail(run.id)} ended ${red(String(run.ending))}: completed steps are kept, later steps were not executed`,
      );
    }
  }
}
