// The story that the demo tells: a message, a task between two companies, and two crashes.

import { join } from 'node:path';
import { COMPILED } from '../../test/support/compiled';
import { endProcess, type Stack } from '../../worker/local/stack';
import type { ScriptedModel } from '../../test/support/scripted-model-server';
import { bold, dim, green, Narrator, red, tail } from './narrator';
import { RoomClient, type Page, type Posted, type RoomEvent, type Run } from './room-client';

/** A worker that kills itself at a named point: the same code, with a SIGKILL in it. */
const CRASH_WORKER = join(COMPILED, 'test', 'support', 'crash-worker.js');

interface Cast {
  readonly roomId: string;
  readonly host: RoomClient;
  readonly guest: RoomClient;
  readonly adminKey: string;
  readonly narrator: Narrator;
}

/** Tells the whole story and returns what a reader needs to look around afterwards. */
export async function tellStory(stack: Stack, model: ScriptedModel): Promise<{ roomId: string; adminKey: string }> {
  const cast = await setUp(stack);
  const { narrator } = cast;
  narrator.start();
  try {
    narrator.say(bold('\n1. A message wakes an agent, which sends a task to an agent of another company\n'));
    await post(cast, '@planner where do we start?');
    await settled(cast, 3);

    narrator.say(bold('\n2. A worker is killed with SIGKILL between two steps'));
    narrator.say(
      dim('   The reply is in the room and in the history; the memory line is not begun. Another worker goes on.\n'),
    );
    await crash(stack, cast, 'postReply:acknowledged', '@scout look after catering, between two steps');

    narrator.say(bold('\n3. A worker is killed with SIGKILL inside an acting step'));
    narrator.say(
      dim('   It had written the memory line and not yet committed it. Nobody can know from outside; the room'),
    );
    narrator.say(
      dim('   does not try again: what came of it is in Postgres, and the run ends where everybody can see.\n'),
    );
    await crash(stack, cast, 'writeMemory:inside', '@scout look after the lighting');

    narrator.say(
      bold('\n4. The next message picks the work up: a fresh run, with its own claim, reads the room as it stands\n'),
    );
    const before = (await runs(cast)).length;
    await post(cast, '@scout please look at the lighting again');
    await settled(cast, before + 1);
  } finally {
    await narrator.stop();
  }
  await sumUp(cast, model);
  return { roomId: cast.roomId, adminKey: cast.adminKey };
}

async function setUp(stack: Stack): Promise<Cast> {
  if (stack.operatorKey === null) throw new Error('the demo starts with a data folder of its own');
  console.log('\nTwo companies, a room, and an always-on agent each, through the public API:');
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
  console.log(
    `  Larkspur hosts the room and brings ${bold('planner')}; Tamarack is its guest and brings ${bold('scout')}`,
  );
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

// The only worker is one that will kill itself at the point; then an ordinary one takes over.
async function crash(stack: Stack, cast: Cast, point: string, text: string): Promise<void> {
  const before = (await runs(cast)).length;
  const ordinary = stack.workers.at(-1);
  cast.narrator.expect('starting a worker that will be killed, and stopping the one before');
  const doomed = await stack.startWorker({ CRASH_POINT: point, CRASH_ACTION: 'kill' }, CRASH_WORKER);
  if (ordinary) await endProcess(ordinary);
  const died = new Promise<void>((resolve) => doomed.once('exit', () => resolve()));
  await post(cast, text);
  cast.narrator.expect('waiting for the worker to reach the point where it is killed');
  await died;
  cast.narrator.line(red('✗ SIGKILL'), red(`worker ${doomed.pid} is killed at ${point}`));
  cast.narrator.expect('starting another worker');
  const fresh = await stack.startWorker();
  cast.narrator.line(green('✓ worker'), green(`worker ${fresh.pid} polls`));
  cast.narrator.expect('Temporal waits for the dead worker to answer, until its time-out');
  await settled(cast, before + 1);
}

async function post(cast: Cast, text: string): Promise<Posted> {
  const posted = await cast.host.post<Posted>(`/v1/rooms/${cast.roomId}/events`, { type: 'message', text });
  for (const wake of posted.wakes) {
    cast.narrator.line(
      '  wake',
      `#${posted.seq} is meant for ${wake.slug}: its wake is ${wake.status}, in the same transaction`,
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

/** Resolves when at least `count` runs are there, all are closed, and no wake waits. */
async function settled(cast: Cast, count: number): Promise<void> {
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
    if (Date.now() > deadline) throw new Error('the room did not come to rest within a minute');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  // The narrator prints what has just become visible before the next chapter begins.
  await new Promise((resolve) => setTimeout(resolve, 300));
}

async function sumUp(cast: Cast, model: ScriptedModel): Promise<void> {
  const events = await cast.host.get<Page<RoomEvent>>(`/v1/rooms/${cast.roomId}/events?after=0&limit=200`);
  const all = await runs(cast);
  const perRun = new Map<string, number>();
  for (const event of events.data) {
    if (event.type === 'message' && typeof event.data['run'] === 'string') {
      perRun.set(event.data['run'], (perRun.get(event.data['run']) ?? 0) + 1);
    }
  }
  const gapless = events.data.every((event, index) => event.seq === index + 1);
  console.log(bold('\nWhat is in the room now\n'));
  console.log(`  ${events.data.length} room events, numbered ${gapless ? 'without gaps' : red('WITH GAPS')}`);
  console.log(
    `  ${all.length} messages woke an agent: ${all.length} claims, ${all.length} runs, ${model.requests.length} model requests`,
  );
  console.log(`  replies posted by one run, at most: ${Math.max(...perRun.values())}`);
  for (const run of all) {
    if (run.ending !== 'replied' && run.ending !== 'silent') {
      console.log(
        `  run ${tail(run.id)} ended ${red(String(run.ending))}: what it did stays, what it had not reached was not done`,
      );
    }
  }
}
