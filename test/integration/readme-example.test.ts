// The API example of the README, run as written in bash and zsh against a real API.

import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import { startTestApi, type TestApi } from '../support/api';
import { fencedBlocks, readProjectFile } from '../support/documents';

const execute = promisify(execFile);

/** The options that start each shell without the start files of the user. */
const SHELLS: Readonly<Record<string, readonly string[]>> = {
  bash: ['--norc', '--noprofile', '-c'],
  zsh: ['-f', '-c'],
};

const [example = '', ...otherExamples] = fencedBlocks(readProjectFile('README.md'), 'sh');

function isInstalled(shell: string): boolean {
  try {
    execFileSync(shell, ['-c', 'exit 0'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** The consecutive JSON documents of a text, such as the answers of several calls of curl. */
function parseAll(text: string): unknown[] {
  return text
    .trim()
    .split(/(?<=[}\]])(?=[{[])/)
    .reduce<string[]>((documents, part) => {
      const last = documents.at(-1);
      if (last === undefined || isJson(last)) documents.push(part);
      else documents[documents.length - 1] = last + part;
      return documents;
    }, [])
    .map((document) => JSON.parse(document));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

test('the README has one example, which can be pasted: no placeholders, no comments, no history expansion, quoted addresses', () => {
  expect(otherExamples).toEqual([]);
  expect(example.trim().split('\n').length).toBeGreaterThan(5);
  expect(example).not.toMatch(/…|\.\.\.|<\w+>/);
  // An interactive zsh does not accept comments, and both shells expand `!`.
  expect(example).not.toMatch(/(^|\s)#|!/);
  // zsh refuses an unquoted `?` or `[` that matches no file.
  const unquoted = example.replaceAll(/'[^']*'|"(?:\\.|[^"\\])*"/g, '');
  expect(unquoted).not.toMatch(/[?*[\]]/);
  const given = new Set([...example.matchAll(/^([A-Z]+)=/gm)].map(([, name]) => name));
  const used = [...example.matchAll(/\$\{?([A-Z][A-Z_]*)/g)].map(([, name]) => name);
  expect(used.filter((name) => !given.has(name)).sort()).toEqual(expect.arrayContaining(['API', 'OPERATOR_KEY']));
  expect(used.filter((name) => !given.has(name) && !['API', 'OPERATOR_KEY', 'MODEL_KEY'].includes(name ?? ''))).toEqual(
    [],
  );
});

describe.each(Object.keys(SHELLS))('the example of the README in %s', (shell) => {
  let api: TestApi;

  beforeAll(async () => {
    api = await startTestApi();
  });
  afterAll(() => api.close());

  const testIn = isInstalled(shell) ? test : test.skip;

  testIn('creates a company, an agent and a room, and posts a message that wakes the agent', async () => {
    const env = { PATH: process.env['PATH'], API: api.url, OPERATOR_KEY: api.operatorKey };
    const { stdout, stderr } = await execute(shell, [...(SHELLS[shell] ?? []), example], { env });
    expect(stderr).toBe('');
    const [entry, posted, feed] = parseAll(stdout) as [
      { preset?: string; agent: unknown },
      { seq: number; wakes: { status: string }[] },
      { data: { type: string; data: { text?: string } }[] },
    ];
    expect(entry).toHaveProperty('agent');
    expect(posted.wakes).toEqual([expect.objectContaining({ status: 'pending' })]);
    const message = feed.data.find((event) => event.type === 'message');
    expect(message?.data.text).toBe('@scribe where do we start?');
  });
});
