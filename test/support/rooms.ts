// Opens more rooms in a world. Each has its own always-on agent, so that a held run blocks no run of another room.

import { RoomDraft, type Author } from '../../prisma/store/rooms/room-draft';
import { newId } from '../../prisma/store/db/ids';
import { stageMessage, type StagedMessage } from '../../prisma/store/rooms/messages';
import { modelKeyBinding } from '../../prisma/store/model-keys/model-keys';
import { addToRoster, lockRoomForWrite, PRESETS } from '../../prisma/store/rooms/roster';
import { stageTask } from '../../prisma/store/rooms/tasks';
import type { DeclaredReply, OnCrash } from '../../workflows/contract';
import { NOTHING_DECLARED } from '../../workflows/policy/steps';
import type { World } from './world';

export interface TestRoom {
  readonly id: string;
  /** The room's always-on agent, with a model key of its own. */
  readonly agent: { readonly id: string; readonly slug: string };
  /** An agent that the room does not wake: the receiver of tasks that are only sent. */
  readonly clerk: { readonly id: string; readonly slug: string };
  /** Posts a message of the host's person. */
  post(text: string): Promise<StagedMessage>;
  /** Sends a task of the host's person to the room's agent. */
  sendTask(goal: string): Promise<StagedMessage & { taskId: string }>;
}

/** Opens a room of the world's host. Names and slugs end in `name`, which must be unique in the world. */
export async function openRoom(
  world: World,
  options: { name: string; modelUrl: string; onCrash?: OnCrash },
): Promise<TestRoom> {
  const { db } = world;
  const companyId = world.host.id;
  const person: Author = world.host.person;
  const roomId = newId('room');
  const slug = `room-${options.name}`;
  await db.room.create({
    data: { id: roomId, slug, name: slug, hostCompanyId: companyId, onCrash: options.onCrash ?? 'stop' },
  });
  await db.roomMember.create({ data: { roomId, companyId, role: 'host' } });
  const addAgent = async (role: 'agent' | 'clerk') => {
    const keyId = newId('mk');
    await db.modelKey.create({
      data: {
        id: keyId,
        companyId,
        name: `key of ${role} ${options.name}`,
        provider: 'openai_compatible',
        baseUrl: options.modelUrl,
        ownerSupplied: false,
        sealedSecret: world.secretBox.seal('sk-test-key', modelKeyBinding(keyId, options.modelUrl)),
      },
    });
    const agent = { id: newId('agent'), slug: `${role}-${options.name}`, name: `${role} ${options.name}`, companyId };
    await db.agent.create({
      data: {
        ...agent,
        alwaysOn: role === 'agent',
        instructions: 'Be brief.',
        model: 'test-model',
        modelKeyId: keyId,
      },
    });
    await db.transaction((tx) => addToRoster(tx, { id: roomId }, agent, PRESETS.autonomous));
    return agent;
  };
  const agent = await addAgent('agent');
  const clerk = await addAgent('clerk');
  const common = { hop: 0, runId: null, refersTo: null };

  return {
    id: roomId,
    agent,
    clerk,
    post: (text) =>
      db.transaction(async (tx) => {
        const room = await lockRoomForWrite(tx, roomId, companyId);
        const draft = new RoomDraft(roomId);
        const staged = await stageMessage(tx, draft, room, { author: person, text, mentions: [], ...common });
        await draft.append(tx);
        return staged;
      }),
    sendTask: (goal) =>
      db.transaction(async (tx) => {
        const room = await lockRoomForWrite(tx, roomId, companyId);
        const draft = new RoomDraft(roomId);
        const staged = await stageTask(tx, draft, room, {
          sender: person,
          to: agent.slug,
          goal,
          acceptanceCriteria: [],
          priority: 'normal',
          deadline: null,
          memoryRefs: [],
          attachments: [],
          ...common,
        });
        await draft.append(tx);
        return staged;
      }),
  };
}

/** A reply with one step of every kind: text, a memory line, an answer to the agent's task, and a task for the clerk. */
export function declareEveryKind(room: TestRoom, taskId: string): DeclaredReply {
  return {
    ...NOTHING_DECLARED,
    reply: 'Done.',
    memory: { category: 'fact', content: 'It was done.', tags: [], visibility: 'shared' },
    task_updates: [{ task: taskId, state: 'done', result: 'done' }],
    tasks_to_send: [
      { to: room.clerk.slug, goal: 'File it.', acceptance_criteria: [], priority: 'normal', deadline: null },
    ],
  };
}
