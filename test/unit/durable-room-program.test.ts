// The program `durable-room`: help, version and usage errors. Each command has its own tests.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { COMMANDS } from '../../worker/cli/commands';
import { runProgram } from '../../worker/cli/program';

const PACKAGE = JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')) as {
  version: string;
  bin: Record<string, string>;
  scripts: Record<string, string>;
};

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const stdout = jest.spyOn(console, 'log').mockImplementation(() => undefined);
  const stderr = jest.spyOn(console, 'error').mockImplementation(() => undefined);
  try {
    const code = await runProgram(args, {});
    const textOf = (spy: jest.SpyInstance): string => spy.mock.calls.map(([line]) => `${line}\n`).join('');
    return { code, stdout: textOf(stdout), stderr: textOf(stderr) };
  } finally {
    stdout.mockRestore();
    stderr.mockRestore();
  }
}

test('--help lists every command and exits with 0; without a command the same text goes to stderr with 2', async () => {
  const help = await run('--help');
  expect([help.code, help.stderr]).toEqual([0, '']);
  for (const { name, summary } of COMMANDS) expect(help.stdout).toMatch(new RegExp(`^  ${name} +${summary}$`, 'm'));
  expect(await run()).toEqual({ code: 2, stdout: '', stderr: help.stdout });
});

test('--version prints the version of package.json', async () => {
  expect(await run('--version')).toEqual({ code: 0, stdout: `${PACKAGE.version}\n`, stderr: '' });
});

test.each(COMMANDS)('$name --help names its options and exit codes, and runs nothing', async (command) => {
  const { code, stdout } = await run(command.name, '--help');
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`^usage: durable-room ${command.name}`));
  for (const option of Object.keys(command.options)) expect(stdout).toContain(`  --${option}`);
  for (const exitCode of [...Object.keys(command.exitCodes), '2']) {
    expect(stdout).toMatch(new RegExp(`^  ${exitCode}  \\S`, 'm'));
  }
});

test.each([
  ['an unknown command', ['nope'], /^unknown command: nope\n\nusage: /],
  ['an unknown option of the program', ['--nope'], /^unknown option: --nope\n\nusage: /],
  ['an unknown option of a command', ['doctor', '--nope'], /--nope[^]*usage: durable-room doctor/],
  ['a missing argument', ['explain'], /^<run> is missing\nusage: durable-room explain <run>/],
  ['an extra argument', ['migrate', 'now'], /^unexpected argument: now\nusage: durable-room migrate/],
  ['a string option without its value', ['explain', 'run_x', '--history'], /usage: durable-room explain <run>/],
])('%s prints the usage and exits with 2', async (_what, args, message) => {
  const { code, stdout, stderr } = await run(...args);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(message);
});

test('every command is an npm script that calls the installed program', () => {
  const program = PACKAGE.bin['durable-room'];
  for (const { name } of COMMANDS) expect(PACKAGE.scripts[name]).toBe(`node ${program} ${name}`);
});
