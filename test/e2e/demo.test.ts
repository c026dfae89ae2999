// `npm run demo`, as a newcomer runs it: it ends well, says what happened, and leaves nothing behind.

import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { COMPILED } from '../support/compiled';

const DEMO = join(COMPILED, 'examples', 'demo', 'main.js');

/** Processes of this machine whose command line or environment names the demo's own temporary folder. */
function leftBehind(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
        return line.includes('durable-room-demo-') ? [line] : [];
      } catch {
        return [];
      }
    });
}

test('the demo tells the whole story, exits 0 and leaves no process behind', async () => {
  const before = leftBehind();
  const demo = spawn(process.execPath, [DEMO], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  demo.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  demo.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => demo.once('exit', resolve));
  expect({ code, output }).toMatchObject({ code: 0 });
  for (const line of [
    '@planner where do we start?',
    'planner claimed',
    'Find a venue for 80 people.',
    'task done',
    'Thank you. That settles the venue.',
    'is killed at postReply:acknowledged',
    'is killed at writeMemory:inside',
    'partial (no_answer) · reply done · memory failed',
    'I see my reply in the room, and no memory line.',
    'numbered without gaps',
    'replies posted by one run, at most: 1',
  ]) {
    expect(output).toContain(line);
  }
  expect(output).not.toContain('WITH GAPS');
  expect(leftBehind()).toEqual(before);
});
