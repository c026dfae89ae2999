import { parseReply, REPLY_FORMAT, REPLY_JSON_SCHEMA, TAGS_LIMIT } from '../../activities/model/reply';
import { NOTHING_DECLARED } from '../../workflows/policy/steps';
import { DECLARED_TASKS_LIMIT, TEXT_LIMIT, type DeclaredReply } from '../../workflows/contract';

const SILENT = NOTHING_DECLARED;
const MEMORY = { category: 'decision', content: 'we ship on Friday', tags: ['release'], visibility: 'shared' } as const;
const UPDATE = { task: 'task_1', state: 'done', result: 'sent' } as const;
const SEND = {
  to: 'scribe',
  goal: 'write it up',
  acceptance_criteria: ['one page'],
  priority: 'high',
  deadline: '2026-08-08',
} as const;
const WHOLE: DeclaredReply = {
  ...NOTHING_DECLARED,
  reply: 'Done.',
  memory: MEMORY,
  task_updates: [UPDATE],
  tasks_to_send: [SEND],
};

const declared = (reply: DeclaredReply) => ({ ok: true, reply });
const plain = (text: string) => declared({ ...SILENT, reply: text });
const failed = (code: string) => ({ ok: false, code });
const parse = (json: unknown) => parseReply(JSON.stringify(json));

describe('a declared reply', () => {
  test('is read completely', () => {
    expect(parse(WHOLE)).toEqual(declared(WHOLE));
  });

  test.each([
    ['bare, with white space around it', (json: string) => `\n\t ${json} \n`],
    ['in a json fence', (json: string) => '```json\n' + json + '\n```'],
    ['in a plain fence with white space around it', (json: string) => '\n\n```\n' + json + '\n```\n '],
    ['in a tilde fence', (json: string) => '~~~json\n' + json + '\n~~~'],
    ['in a longer fence', (json: string) => '````json\n' + json + '\n````'],
    ['in a fence on one line', (json: string) => '```json ' + json + ' ```'],
    ['in a fence that is never closed', (json: string) => '```json\n' + json],
    ['after a reasoning block', (json: string) => '<think>{"reply":"no"}</think>\n' + json],
  ])('%s', (_where, wrap) => {
    expect(parseReply(wrap(JSON.stringify(WHOLE, null, 2)))).toEqual(declared(WHOLE));
  });

  test('may contain backticks and fences in its text', () => {
    const reply = { ...SILENT, reply: 'run `make`:\n```\nmake\n```' };
    expect(parse(reply)).toEqual(declared(reply));
    expect(parseReply('```json\n' + JSON.stringify(reply) + '\n```')).toEqual(declared(reply));
  });

  test.each([
    [{ reply: 'hi' }, { ...SILENT, reply: 'hi' }],
    [{ memory: MEMORY }, { ...SILENT, memory: MEMORY }],
    [{ task_updates: [UPDATE] }, { ...SILENT, task_updates: [UPDATE] }],
    [
      { tasks_to_send: null, task_updates: null, memory: null, reply: 'hi' },
      { ...SILENT, reply: 'hi' },
    ],
    [{ reply: null }, SILENT],
    [{ reply: '' }, SILENT],
    [{ reply: ' \n\u200B' }, SILENT],
  ])('what is left out means none: %j', (json, expected) => {
    expect(parse(json)).toEqual(declared(expected));
  });

  test('a missing inner field means none, too', () => {
    const { tags: _tags, ...memory } = MEMORY;
    const parsed = parse({ reply: 'hi', memory, tasks_to_send: [{ to: 'scribe', goal: 'go' }] });
    const sent = { to: 'scribe', goal: 'go', acceptance_criteria: [], priority: 'normal', deadline: null } as const;
    expect(parsed).toEqual(
      declared({ ...SILENT, reply: 'hi', memory: { ...MEMORY, tags: [] }, tasks_to_send: [sent] }),
    );
  });

  test.each<[string, unknown]>([
    ['an unknown key', { ...WHOLE, approve: true }],
    ['an unknown key inside', { memory: { ...MEMORY, owner: 'x' } }],
    ['a reply that is no text', { reply: 7 }],
    ['a reply that is a list', { reply: ['hi'] }],
    ['memory as a list', { memory: [MEMORY, MEMORY] }],
    ['memory as text', { memory: 'remember this' }],
    ['an empty memory line', { memory: { ...MEMORY, content: ' \u200B' } }],
    ['a memory line that is only reasoning', { memory: { ...MEMORY, content: '<think>x</think>' } }],
    ['a memory line over the limit', { memory: { ...MEMORY, content: 'x'.repeat(TEXT_LIMIT + 1) } }],
    ['an unknown category', { memory: { ...MEMORY, category: 'secret' } }],
    ['no visibility', { memory: { ...MEMORY, visibility: undefined } }],
    ['too many tags', { memory: { ...MEMORY, tags: Array(TAGS_LIMIT + 1).fill('t') } }],
    ['a long tag', { memory: { ...MEMORY, tags: ['t'.repeat(65)] } }],
    ['an empty tag', { memory: { ...MEMORY, tags: [''] } }],
    ['an unknown task state', { task_updates: [{ ...UPDATE, state: 'accepted' }] }],
    ['a task update without a task', { task_updates: [{ state: 'done', result: '' }] }],
    ['a task update that is no object', { task_updates: ['task_1'] }],
    ['a task without a recipient', { tasks_to_send: [{ ...SEND, to: '' }] }],
    ['an unknown priority', { tasks_to_send: [{ ...SEND, priority: 'now' }] }],
    ['too many tasks sent', { tasks_to_send: Array(DECLARED_TASKS_LIMIT + 1).fill(SEND) }],
    ['too many tasks together', { task_updates: Array(11).fill(UPDATE), tasks_to_send: Array(10).fill(SEND) }],
  ])('is invalid as a whole with %s', (_what, json) => {
    expect(parse(json)).toEqual(failed('reply_invalid'));
  });

  test('may declare as many tasks as the limit, both kinds together', () => {
    const most = { ...SILENT, task_updates: Array(10).fill(UPDATE), tasks_to_send: Array(10).fill(SEND) };
    expect(parse(most)).toEqual(declared(most));
  });

  test('gains nothing from prototype keys', () => {
    expect(parseReply('{"reply":"hi","__proto__":{"memory":{}}}')).toEqual(failed('reply_invalid'));
    expect(parseReply('{"reply":"hi","memory":{"__proto__":{"category":"fact"}}}')).toEqual(failed('reply_invalid'));
    expect(({} as { memory?: unknown }).memory).toBeUndefined();
  });

  test.each([
    '2026-08-08',
    '2028-02-29',
    '2026-08-08T17:00:00Z',
    '2026-08-08t17:00:00.123z',
    '2026-08-08T17:00:00-04:00',
  ])('accepts the deadline %s', (deadline) => {
    expect(parse({ tasks_to_send: [{ ...SEND, deadline }] })).toMatchObject({ ok: true });
  });

  test.each([
    'tomorrow',
    '',
    '08/08/2026',
    '2026-02-30',
    '2026-13-01',
    '2026-02-29',
    '2026-08-08T17:00:00',
    '2026-08-08T17:00Z',
    '2026-08-08 17:00:00Z',
    '2026-08-08T24:00:00Z',
    '2026-08-08T17:00:60Z',
    '2026-08-08T17:00:00+25:00',
    '0000-01-01',
    '12026-08-08',
    '2026-08-08\n',
  ])('is invalid with the deadline %j', (deadline) => {
    expect(parse({ tasks_to_send: [{ ...SEND, deadline }] })).toEqual(failed('reply_invalid'));
  });
});

describe('plain text', () => {
  test.each([
    'Done.',
    '7',
    '"quoted"',
    '[{"reply":"x"}]',
    '{"answer":"x"}',
    '{}',
    '{"reply":"broken',
    'Here it is: {"reply":"x"}',
    'As JSON:\n```json\n{"reply":"x"}\n```',
    '```json\n{"reply":"x"}\n```\nThat is all.',
    '```\nmake\n```',
    'Use `reply` like this: {"reply":"say `hi`"}',
    'null',
  ])('is the reply, and declares nothing: %j', (text) => {
    expect(parseReply(text)).toEqual(plain(text));
  });

  test('is posted without the white space around it', () => {
    expect(parseReply('\n Done. \n')).toEqual(plain('Done.'));
  });

  test.each(['', ' ', '\n\t', '\u200B', '\uFEFF\u2060\u00AD', '\u200D \u180E'])(
    'is empty without a visible character: %j',
    (text) => {
      expect(parseReply(text)).toEqual(failed('reply_empty'));
    },
  );
});

describe('a long reply', () => {
  test.each([
    ['plain', (text: string) => text],
    ['declared', (text: string) => JSON.stringify({ reply: text, memory: MEMORY })],
  ])('is accepted at the limit and too long above it: %s', (_how, wrap) => {
    expect(parseReply(wrap('x'.repeat(TEXT_LIMIT)))).toMatchObject({ ok: true });
    expect(parseReply(wrap('🚀'.repeat(TEXT_LIMIT / 2) + 'x'))).toEqual(failed('reply_too_long'));
  });

  test.each([
    ['spaces in a fence', '```' + ' '.repeat(2_000_000)],
    ['brackets', '['.repeat(1_000_000)],
    ['fences', '```\n'.repeat(400_000)],
    ['open reasoning tags', '<think></think>'.repeat(100_000)],
    ['lines of blanks', ' \n'.repeat(1_000_000) + 'x'],
    ['nested objects', '{"reply":'.repeat(200_000)],
    ['nested lists in a field', `{"reply":"x","memory":${'['.repeat(200_000)}${']'.repeat(200_000)}}`],
  ])('of 2 MB that is hard to parse is still parsed: %s', (_what, text) => {
    // Quadratic time would exceed the time limit of the test many times over.
    expect(parseReply(text)).toHaveProperty('ok');
  });
});

describe('reasoning in tags', () => {
  test.each([
    ['<think>canary</think>Done.', 'Done.'],
    ['\n<thinking>\ncanary\n</thinking>\n\nDone.', 'Done.'],
    ['<REASONING>canary</reasoning> Done.', 'Done.'],
    ['<think>canary</think><thinking>canary</thinking>Done.', 'Done.'],
    ['the template opened the block; canary\n</think>\n\nDone.', 'Done.'],
  ])('is not posted: %j', (text, expected) => {
    expect(parseReply(text)).toEqual(plain(expected));
  });

  test.each(['<think>canary', '<think>canary</thinking>', '<think>canary</think>', ' <think>\n{"reply":"canary"}'])(
    'without a closing tag, or without text after it, posts nothing: %j',
    (text) => {
      expect(parseReply(text)).toEqual(failed('reply_empty'));
    },
  );

  test.each([
    'Put it in <think> and </think>.',
    'The model writes <think>like this</think> first.',
    'A sample:\n```\n<think>\nx\n</think>\n```\nThat is it.',
    'A sample:\n```\n</think>\n```\nThat is it.',
  ])('mentioned in a sentence is left alone: %j', (text) => {
    expect(parseReply(text)).toEqual(plain(text));
  });

  test('is removed from every declared text', () => {
    const block = '<think>canary</think>';
    const parsed = parse({
      reply: `${block}Done.`,
      memory: { ...MEMORY, content: `${block}line` },
      task_updates: [{ ...UPDATE, result: `${block}sent` }],
      tasks_to_send: [{ ...SEND, goal: `${block}go` }],
    });
    expect(parsed).toMatchObject({ ok: true, reply: { reply: 'Done.' } });
    expect(JSON.stringify(parsed)).not.toContain('canary');
    expect(parse({ reply: '<think>canary' })).toEqual(failed('reply_empty'));
  });
});

describe('NUL and unpaired surrogates', () => {
  const BAD = 'a\0b\uD83Dc\uDE80d 🚀';
  const CLEAN = 'a\uFFFDb\uFFFDc\uFFFDd 🚀';

  test('become U+FFFD in plain text', () => {
    expect(parseReply(BAD)).toEqual(plain(CLEAN));
  });

  test('become U+FFFD in every declared string, escaped or raw', () => {
    const of = (text: string) => ({
      reply: text,
      memory: { ...MEMORY, content: text, tags: [text] },
      task_updates: [{ ...UPDATE, task: text, result: text }],
      tasks_to_send: [{ ...SEND, to: text, goal: text, acceptance_criteria: [text] }],
    });
    expect(parse(of(BAD))).toEqual(declared(of(CLEAN)));
    expect(parseReply(JSON.stringify({ reply: 'x' }).replace('x', BAD))).toEqual(plain(CLEAN));
  });
});

describe('the requested format', () => {
  test('is a strict schema: every key required, no others, no keywords that strict servers refuse', () => {
    const seen: string[] = [];
    JSON.stringify(REPLY_JSON_SCHEMA, (key, value: unknown) => {
      seen.push(key);
      if (typeof value === 'object' && value !== null && 'properties' in value) {
        const schema = value as { properties: object; required?: string[]; additionalProperties?: boolean };
        expect(schema.required).toEqual(Object.keys(schema.properties));
        expect(schema.additionalProperties).toBe(false);
      }
      return value;
    });
    expect(seen).toContain('acceptance_criteria');
    expect(seen).not.toContain('maxLength');
    expect(seen).not.toContain('maxItems');
    expect(seen).not.toContain('$schema');
  });

  test('names the same keys in words', () => {
    for (const key of Object.keys(WHOLE)) expect(REPLY_FORMAT).toContain(`"${key}"`);
    for (const key of [...Object.keys(MEMORY), ...Object.keys(UPDATE), ...Object.keys(SEND)]) {
      expect(REPLY_FORMAT).toContain(`"${key}"`);
    }
  });
});
