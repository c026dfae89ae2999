// The output of a run in the streams of its room: every subscriber gets one message for one model call, once.

import { randomBytes } from 'node:crypto';
import pino from 'pino';
import { createSecretBox } from '../../workflows/policy/secret-box';
import { createKey } from '../../prisma/store/access/keys';
import { createStreams } from '../../api/middleware/event-streams';
import { createClient, expectStatus, serveApi, type Json } from '../support/api';
import { openEvents } from '../support/event-source';
import { answer, startScriptedModel, type ScriptedModel } from '../support/scripted-model-server';
import { closedRun, startTestWorker, type TestWorker } from '../support/runs';
import { createWorld, type World } from '../support/world';

let model: ScriptedModel;
let world: World;
let worker: TestWorker;

beforeAll(async () => {
  model = await startScriptedModel();
  world = await createWorld({ modelUrl: model.url });
  worker = await startTestWorker(world);
});
afterAll(async () => {
  await worker.stop();
  await world.close();
  await model.stop();
});

test('two subscribers get the same message event once each, and the list shows it once', async () => {
  const streams = createStreams({ db: world.db, databaseUrl: world.url });
  const served = await serveApi({
    db: world.db,
    secretBox: createSecretBox([{ id: 'test', key: randomBytes(32) }]),
    providers: new Map(),
    allowedModelHosts: [],
    prices: new Map(),
    log: pino({ level: 'silent' }),
    streams,
  });
  const companies = [world.host.id, world.guest.id];
  const tokens: string[] = [];
  for (const companyId of companies) {
    const key = { kind: 'service', name: 'reader', companyId } as const;
    tokens.push((await world.db.transaction((tx) => createKey(tx, key))).token);
  }
  const path = `/v1/rooms/${world.roomId}`;
  const readers = await Promise.all(tokens.map((token) => openEvents(`${served.url}${path}/events`, token)));
  try {
    model.script(answer.reply('Hello from the scribe.'));
    const { messageId } = await world.post('@scribe please say hello');
    const { id } = await closedRun(world.db, messageId);
    const { seq } = await world.db.roomEvent.findFirstOrThrow({ where: { type: 'run_ended', subjectId: id } });
    const shown = [];
    for (const reader of readers) {
      const events = await reader.received(Number(seq));
      const said = events.filter(({ data }) => data.type === 'message' && data.data.run === id);
      shown.push(said.map(({ data }) => data.data.id));
    }
    expect(shown[0]).toHaveLength(1);
    expect(shown[1]).toEqual(shown[0]);
    const { data } = await expectStatus(200, createClient(served.url, tokens[0]).get(`${path}/messages`));
    expect(data.filter((message: Json) => message.run === id).map((message: Json) => message.id)).toEqual(shown[0]);
  } finally {
    for (const reader of readers) reader.close();
    await streams.close();
    await served.close();
  }
});
