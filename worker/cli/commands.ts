// The commands of `durable-room`. A new command is one more entry here. Only the command that runs loads its code.

import type { Environment } from '../temporal/settings';

export interface CommandInput {
  readonly env: Environment;
  readonly values: Readonly<Record<string, string | boolean | undefined>>;
  readonly positionals: readonly string[];
}

/** Runs a command and resolves with its exit code. */
export type RunCommand = (input: CommandInput) => Promise<number>;

export interface CommandOption {
  readonly type: 'boolean' | 'string';
  readonly help: string;
  /** How the usage names the value of a string option. */
  readonly valueName?: string;
}

export interface Command {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  readonly description: string;
  /** The name of the one required argument; undefined when the command takes none. */
  readonly argument?: string;
  readonly options: Readonly<Record<string, CommandOption>>;
  /** The environment variables that the command reads, each with its meaning. */
  readonly variables: Readonly<Record<string, string>>;
  /** All exit codes except the one for invalid arguments. */
  readonly exitCodes: Readonly<Record<number, string>>;
  /** Loads the code of the command. */
  load(): RunCommand;
}

export const COMMANDS: readonly Command[] = [
  {
    name: 'doctor',
    summary: 'check Postgres, Temporal, the master keys and the model keys',
    description: 'Checks everything that a deployment needs and prints a fix for each failed check.',
    options: {
      json: { type: 'boolean', help: 'print {"ok", "findings"} as JSON' },
      'install-search-attributes': {
        type: 'boolean',
        help: 'add the missing search attributes to the namespace; nothing else is changed',
      },
    },
    variables: {
      DATABASE_URL: 'the database to check',
      'TEMPORAL_…': "the Temporal server to check, in Temporal's own variables",
      MASTER_KEYS: 'the master keys to check',
      DATA_FOLDER: 'data folder of `npm start`; its servers are used for what is not set',
    },
    exitCodes: { 0: 'no check failed', 1: 'a check failed' },
    load: () => (require('./doctor/run') as typeof import('./doctor/run')).runDoctor,
  },
  {
    name: 'explain',
    summary: 'print what happened to a run, save its history, replay it',
    description: "Prints the timeline of a run from the ledger, the room and Temporal's history.",
    argument: 'run',
    options: {
      json: { type: 'boolean', help: 'print the timeline as the API returns it' },
      history: { type: 'string', valueName: 'file', help: "write the run's Temporal history to this file" },
      replay: { type: 'boolean', help: 'replay the history against this code' },
    },
    variables: {
      DATABASE_URL: 'the database that holds the run',
      'TEMPORAL_…': "the Temporal server that holds the history, in Temporal's own variables",
      DATA_FOLDER: 'data folder of `npm start`; its servers are used for what is not set',
    },
    exitCodes: {
      0: 'the run was explained, and its history replays if --replay was given',
      1: 'there is no such run, or no history to write or replay',
      3: 'this code does not replay the history',
    },
    load: () => (require('./explain/run') as typeof import('./explain/run')).runExplain,
  },
  {
    name: 'migrate',
    summary: "apply this code's database migrations",
    description: 'Applies every migration that the database lacks. Safe to run in several processes at once.',
    options: {},
    variables: { DATABASE_URL: 'the database to migrate' },
    exitCodes: { 0: 'the database is up to date', 1: 'the database could not be migrated' },
    load: () => (require('./migrate') as typeof import('./migrate')).runMigrate,
  },
  {
    name: 'rotate-keys',
    summary: 'seal every stored secret under the first master key',
    description: 'Seals every stored secret again under the first key of MASTER_KEYS. Can be stopped and repeated.',
    options: {},
    variables: {
      DATABASE_URL: 'the database that holds the secrets',
      MASTER_KEYS: 'all master keys; the first one seals',
      DATA_FOLDER: 'data folder of `npm start`; its database is used if DATABASE_URL is not set',
    },
    exitCodes: { 0: 'every secret is sealed under the first key', 1: 'some secrets are not' },
    load: () => (require('./rotate-keys') as typeof import('./rotate-keys')).runRotateKeys,
  },
  {
    name: 'mcp',
    summary: 'serve MCP over stdio, as a client of the API',
    description: 'Serves the Model Context Protocol over stdin and stdout until stdin ends. Errors go to stderr.',
    options: {},
    variables: {
      DURABLE_ROOM_URL: 'base URL of the API',
      DURABLE_ROOM_KEY: 'API key of the agent, member or service',
    },
    exitCodes: { 0: 'stdin ended', 1: 'a variable is missing or invalid' },
    load: () => (require('./mcp') as typeof import('./mcp')).runMcp,
  },
];
