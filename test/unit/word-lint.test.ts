// The word lint finds the words that the style guide avoids in prose, and only there.

interface Found {
  readonly line: number;
  readonly column: number;
  readonly word: string;
}
const { findWords } = jest.requireActual<{ findWords(path: string, text: string): Found[] }>('../lint/words.js');

const words = (path: string, text: string): string[] => findWords(path, text).map(({ word }) => word);

test.each([
  ['// whoever asks', 'whoever'],
  ['// Nobody asks', 'Nobody'],
  ['/** somebody’s key */', 'somebody'],
  ['// loads it anew.', 'anew'],
  ['// it stands for a row', 'stands'],
  ['// a stand-in', 'stand-in'],
  ['// as it stood', 'stood'],
  ['// what was said/asked', 'said'],
  ['// it says so', 'says'],
  ['// it is told so', 'told'],
  ['// it tells so', 'tells'],
  ['// mended by hand', 'mended'],
  ['// the door of the API', 'door'],
  ['// waits for a yes', 'a yes'],
  ['// how it comes about', 'comes about'],
  ['// it goes on', 'goes on'],
  ['// text as it is, unchanged', 'as it is'],
  ['// in sight of everyone', 'in sight of'],
  ['// waits for a\n// yes', 'a yes'],
  ['/* it goes\n * on */', 'goes on'],
  ["test('nobody is woken', () => {});", 'nobody'],
  ['const text = `of ${name}: told`;', 'told'],
  ["const text = 'a line\\nsaid';", 'said'],
  ["throw new Error('it says: ' + text);", 'says'],
])('in code, %j has %j', (text, word) => {
  expect(words('a.ts', text)).toEqual([word]);
});

test.each([
  ['// a standard, understood'],
  ['// as long as it is open'],
  ['// the file `door.ts`'],
  ['// ./in-process-door and door.ts'],
  ['const door = told.says(nobody);'],
  ["import { a } from './door';"],
  ["export { a } from './door';"],
  ["export * from './door';"],
  ['const pattern = /told|said/;'],
  ['db.$queryRaw`SELECT stands FROM said`;'],
  ["const metric = 'durable_room_standing';"],
  ["post('@scout told'); // word-lint: a message of a test"],
  ["// word-lint: a message of a test\npost('@scout told');"],
])('in code, %j has none', (text) => {
  expect(words('a.ts', text)).toEqual([]);
});

test('JSX text and attributes are searched, names of elements and attributes are not', () => {
  expect(words('a.tsx', '<Told door={1} title="nobody">it\n says</Told>;')).toEqual(['nobody', 'says']);
});

test('in Markdown, prose and shell blocks are searched; other code and link targets are not', () => {
  const text = [
    'The door and `door`, [told](door.md). <!-- no reason -->',
    '```ts',
    'door();',
    '```',
    '```sh',
    'run # nobody asks',
    '```',
    '<!-- word-lint: a quotation -->',
    'She said so.',
    'It goes',
    'on.',
  ].join('\n');
  expect(words('a.md', text)).toEqual(['door', 'told', 'nobody', 'goes on']);
});

test('a word is reported with its line and column', () => {
  expect(findWords('a.ts', "const a = 1;\n  // it's told")).toMatchObject([{ line: 2, column: 11, word: 'told' }]);
});

test('a marker without a reason, or two lines above, allows nothing', () => {
  expect(words('a.ts', "post('told'); // word-lint:")).toEqual(['told']);
  expect(words('a.ts', "// word-lint: sample\n\npost('told');")).toEqual(['told']);
});

test('code that does not parse is an error', () => {
  expect(() => words('a.ts', 'const = 1')).toThrow('a.ts does not parse');
});
