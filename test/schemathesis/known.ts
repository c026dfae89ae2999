// Creates resources through the API, so that schemathesis can request ids that exist.

import { expectStatus, setUpRoom, type ApiClient, type ReachedApi } from '../support/api';

/** Creates a room with a few events. Returns an admin key and a value for each path parameter of the API. */
export async function makeKnown(api: ReachedApi): Promise<{ key: string; known: Record<string, string> }> {
  const room = await setUpRoom(api, { suffix: `-${Date.now().toString(36)}` });
  const { admin, member, agentId, modelKeyId } = room.larkspur;
  const post = async (client: ApiClient, event: object) => expectStatus(201, client.post(`${room.path}/events`, event));
  const message = await post(member, { type: 'message', text: '@scout where do we start?' });
  const task = await post(member, { type: 'task', to: 'scout', goal: 'Count the boats.' });
  const entry = await post(member, { type: 'memory', category: 'fact', content: 'There are boats.' });
  const file = await expectStatus(
    201,
    member.send('POST', `${room.path}/files?name=boats.txt`, {
      body: 'There are boats.',
      headers: { 'content-type': 'text/plain' },
    }),
  );
  const spare = await expectStatus(201, admin.post('/v1/keys', { kind: 'service', name: 'spare' }));
  const { token } = await expectStatus(
    201,
    admin.post('/v1/keys', { kind: 'person', role: 'admin', name: 'schemathesis' }),
  );
  const known = {
    company: room.larkspur.id,
    room: room.id,
    agent: agentId,
    model_key: modelKeyId,
    message: message.id,
    task: task.id,
    entry: entry.id,
    wake: message.wakes[0].wake,
    file: file.id,
    key: spare.id,
  };
  return { key: token, known };
}
