// Reads the arguments of `durable-room`, prints help and usage, and runs one command. It knows no command by name.

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { COMMANDS, type Command, type CommandInput } from './commands';

/** Exit code for an unknown command, an unknown flag or a missing argument. */
export const EXIT_USAGE = 2;

/** Runs `durable-room` with these arguments and resolves with its exit code. Rejects when a command fails unexpectedly. */
export async function runProgram(args: readonly string[], env: CommandInput['env']): Promise<number> {
  const [first, ...rest] = args;
  switch (first) {
    case undefined:
      console.error(programHelp());
      return EXIT_USAGE;
    case '--help':
    case '-h':
      console.log(programHelp());
      return 0;
    case '--version':
      console.log(readVersion());
      return 0;
  }
  const command = COMMANDS.find(({ name }) => name === first);
  if (command === undefined) {
    console.error(`unknown ${first.startsWith('-') ? 'option' : 'command'}: ${first}\n\n${programHelp()}`);
    return EXIT_USAGE;
  }
  const parsed = parseCommandLine(command, rest);
  if (parsed.kind === 'help') {
    console.log(commandHelp(command));
    return 0;
  }
  if (parsed.kind === 'invalid') {
    console.error(`${parsed.reason}\n${usageLine(command)}\nSee: durable-room ${command.name} --help`);
    return EXIT_USAGE;
  }
  return command.load()({ env, values: parsed.values, positionals: parsed.positionals });
}

type Parsed =
  | ({ readonly kind: 'valid' } & Pick<CommandInput, 'values' | 'positionals'>)
  | { readonly kind: 'help' }
  | { readonly kind: 'invalid'; readonly reason: string };

function parseCommandLine(command: Command, args: readonly string[]): Parsed {
  try {
    const options = Object.fromEntries(Object.entries(command.options).map(([name, { type }]) => [name, { type }]));
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
    if (values['help'] === true) return { kind: 'help' };
    const expected = command.argument === undefined ? 0 : 1;
    if (positionals.length < expected) return { kind: 'invalid', reason: `<${command.argument}> is missing` };
    if (positionals.length > expected) {
      return { kind: 'invalid', reason: `unexpected argument: ${positionals[expected]}` };
    }
    return { kind: 'valid', values, positionals };
  } catch (error) {
    return { kind: 'invalid', reason: error instanceof Error ? error.message : String(error) };
  }
}

function programHelp(): string {
  const width = Math.max(...COMMANDS.map(({ name }) => name.length));
  return [
    'usage: durable-room <command> [options]',
    '       durable-room <command> --help',
    '       durable-room --help | --version',
    '',
    'commands:',
    ...COMMANDS.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`),
    '',
    `Every command exits with ${EXIT_USAGE} when its arguments are invalid; "<command> --help" lists its other exit codes.`,
  ].join('\n');
}

function commandHelp(command: Command): string {
  const options = [
    ...Object.entries(command.options).map(([name, option]) => [optionUsage(name, option), option.help] as const),
    ['-h, --help', 'print this text'] as const,
  ];
  const exitCodes = { ...command.exitCodes, [EXIT_USAGE]: 'invalid arguments' };
  return [
    usageLine(command),
    '',
    command.description,
    '',
    'options:',
    ...table(options),
    '',
    'environment:',
    ...table(Object.entries(command.variables)),
    '',
    'exit codes:',
    ...table(Object.entries(exitCodes)),
  ].join('\n');
}

function usageLine({ name, argument, options }: Command): string {
  const parts = Object.entries(options).map(([option, settings]) => `[${optionUsage(option, settings)}]`);
  return ['usage: durable-room', name, ...(argument === undefined ? [] : [`<${argument}>`]), ...parts].join(' ');
}

function optionUsage(name: string, { type, valueName }: Command['options'][string]): string {
  return type === 'boolean' ? `--${name}` : `--${name} <${valueName ?? 'value'}>`;
}

function table(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}

/** The version in this project's package.json, which is above both the sources and the compiled code. */
function readVersion(): string {
  for (let dir = __dirname; ; dir = dirname(dir)) {
    const file = join(dir, 'package.json');
    if (existsSync(file)) return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
    if (dirname(dir) === dir) return 'unknown';
  }
}
