// The MCP server over stdio as a process: its configuration and its exit when the client ends.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { COMPILED } from '../support/compiled';

const MAIN = join(COMPILED, 'worker', 'cli', 'main.js');
const GOOD = { DURABLE_ROOM_URL: 'http://127.0.0.1:9/', DURABLE_ROOM_KEY: 'dr_agent_x' };

async function run(env: Record<string, string>, stdin: string) {
  const child = spawn(process.execPath, [MAIN, 'mcp'], { env, stdio: 'pipe' });
  child.stdin.end(stdin);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { stdout, stderr, code: code as number | null };
}

test.each([
  ['no configuration', {}, ['DURABLE_ROOM_URL', 'DURABLE_ROOM_KEY']],
  ['an invalid address', { ...GOOD, DURABLE_ROOM_URL: 'canary' }, ['DURABLE_ROOM_URL']],
  ['another protocol', { ...GOOD, DURABLE_ROOM_URL: 'file:///canary' }, ['DURABLE_ROOM_URL']],
  ['a password in the address', { ...GOOD, DURABLE_ROOM_URL: 'http://canary:canary@127.0.0.1' }, ['DURABLE_ROOM_URL']],
  ['a key with a line break', { ...GOOD, DURABLE_ROOM_KEY: 'canary\ncanary' }, ['DURABLE_ROOM_KEY']],
])('with %s it does not start, and the error names the variable without its value', async (_case, env, named) => {
  const { stdout, stderr, code } = await run(env, '');
  expect([stdout, code]).toEqual(['', 1]);
  for (const name of ['DURABLE_ROOM_URL', 'DURABLE_ROOM_KEY']) expect(stderr.includes(name)).toBe(named.includes(name));
  expect(stderr).not.toContain('canary');
});

test('the server writes only protocol messages to stdout, answers pending calls and exits when stdin ends', async () => {
  const messages = [
    {
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
    },
    { method: 'notifications/initialized' },
    { id: 2, method: 'tools/call', params: { name: 'list_rooms', arguments: {} } },
  ];
  const stdin = messages.map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`).join('');
  const { stdout, stderr, code } = await run(GOOD, `no JSON\n${stdin}`);
  const answers = stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { id: number; result: Record<string, unknown> });
  expect(answers.map(({ id }) => id)).toEqual([1, 2]);
  expect(answers[0]?.result).toMatchObject({ protocolVersion: '2024-11-05' });
  expect(answers[1]?.result).toMatchObject({ isError: true });
  expect([stderr, code]).toEqual(['', 0]);
});
