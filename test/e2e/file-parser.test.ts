// The file parser in its own process: formats, encodings, limits.

import { createServer } from 'node:http';
import { Socket, type AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { PARSE_LIMITS, type ParseOutcome } from '../../worker/file-parser/limits';
import { forbidNetwork } from '../../worker/file-parser/no-network';
import { makePdf, parse, PNG } from '../support/sample-files';

function textsOf(outcome: ParseOutcome): string[] {
  if (outcome.kind !== 'read') throw new Error(`not read: ${JSON.stringify(outcome)}`);
  return outcome.passages.map((passage) => passage.text);
}

describe('a file is parsed', () => {
  test('PDF: passages by page, each with its page number', async () => {
    const outcome = await parse('application/pdf', makePdf(['Turbine report\nsecond line', 'Costs (2026)']));
    expect(outcome).toEqual({
      kind: 'read',
      pages: 2,
      passages: [
        { text: 'Turbine report\nsecond line', page: 1, line: null, start: 0 },
        { text: 'Costs (2026)', page: 2, line: null, start: 27 },
      ],
    });
  });

  test('HTML: the visible text, without scripts, styles and markup', async () => {
    const html = `<html><head><style>p { color: red }</style><script>alert('no')</script></head><body>
      <h1>Plan</h1><p>Buy <b>two</b> turbines &amp; a&nbsp;crane<br>by May</p><template>hidden</template>
      <table><tr><td>one</td><td>two</td></tr></table><noscript>no</noscript></body></html>`;
    expect(textsOf(await parse('text/html', html))).toEqual(['Plan\n\nBuy two turbines & a crane\nby May\n\none two']);
  });

  test('CSV: every record with its column names and its line', async () => {
    const outcome = await parse('text/csv', 'part;price\n"Bolt; large\nor small";3\nNut;1\n');
    expect(outcome).toMatchObject({
      passages: [{ line: 2, text: 'part: Bolt; large\nor small | price: 3\npart: Nut | price: 1' }],
    });
  });

  test('invalid CSV: as plain text', async () => {
    expect(textsOf(await parse('text/csv', 'a,b\n"never closed,1\nx'))).toEqual(['a,b\n"never closed,1\nx']);
  });

  test.each(['text/plain', 'text/markdown', 'application/json'])('%s: unchanged', async (type) => {
    expect(textsOf(await parse(type, '{"a": [1,\r\n2]} # x'))).toEqual(['{"a": [1,\n2]} # x']);
  });

  test('a long text is cut into passages at the ends of paragraphs, each with its line', async () => {
    const paragraph = `${'All work and no play. '.repeat(20).trim()}\n\n`;
    const outcome = await parse('text/plain', paragraph.repeat(30));
    if (outcome.kind !== 'read') throw new Error('not read');
    expect(outcome.passages.length).toBeGreaterThan(10);
    for (const { text, line, start } of outcome.passages) {
      expect(text.length).toBeLessThanOrEqual(1_200);
      expect(text).toMatch(/^All.*play\.$/s);
      expect(line).toBe(1 + (2 * start) / paragraph.length);
    }
  });

  test('a line of five megabytes is cut into passages below the limit', async () => {
    const texts = textsOf(await parse('text/plain', '🚀x'.repeat(1_700_000)));
    expect(Math.max(...texts.map((text) => text.length))).toBeLessThanOrEqual(1_200);
    expect(texts.join('')).toBe('🚀x'.repeat(1_700_000));
  });
});

describe('text in any encoding is parsed', () => {
  const french = "Le café est fermé à cause de l'été, déjà vu. Größe über alles, señor. ";
  test.each<[string, Buffer, string]>([
    ['UTF-8 with a byte order mark', Buffer.from('\ufeffdéjà vu'), 'déjà vu'],
    ['UTF-16 LE with a byte order mark', Buffer.from('\ufeffПривет, мир', 'utf16le'), 'Привет, мир'],
    ['UTF-16 BE with a byte order mark', Buffer.from('\ufeffПривет, мир', 'utf16le').swap16(), 'Привет, мир'],
    ['UTF-16 without a byte order mark', Buffer.from('plain words', 'utf16le'), 'plain words'],
    ['Latin-1', Buffer.from(french, 'latin1'), french.trim()],
    [
      'Windows-1251',
      Buffer.from('cff0e8e2e5f22c20eceef020e4eef0eee3eee92c20eae0ea20e4e5ebe03f', 'hex'),
      'Привет, мор дорогой, как дела?',
    ],
  ])('%s', async (_, bytes, text) => {
    expect(textsOf(await parse('text/plain', bytes))).toEqual([text]);
  });
});

describe('a file is refused with a reason', () => {
  const unreadable = (code: string) => ({ kind: 'unreadable', code });
  test.each<[string, string, Buffer | string, string]>([
    ['an image with the type of a text', 'text/plain', PNG, 'binary'],
    ['an archive with the type of a text', 'text/plain', gzipSync('x'.repeat(9_999)), 'binary'],
    ['text with NULs', 'text/markdown', 'a\0b\0\0c and then words', 'binary'],
    ['text full of control characters', 'text/plain', '\u0001\u0002a\u0003'.repeat(50), 'binary'],
    ['only white space', 'text/plain', ' \n\t\n', 'no_text'],
    ['a file with the type of a PDF that is not a PDF', 'application/pdf', PNG, 'broken'],
    ['a PDF without text', 'application/pdf', makePdf(['']), 'no_text'],
    [
      'a PDF with more pages than the limit',
      'application/pdf',
      makePdf(Array<string>(501).fill('x')),
      'too_many_pages',
    ],
  ])('%s', async (_, type, bytes, code) => {
    expect(await parse(type, bytes)).toEqual(unreadable(code));
  });

  test('a PDF of 500 pages is parsed', async () => {
    expect(await parse('application/pdf', makePdf(Array<string>(500).fill('x')))).toMatchObject({ pages: 500 });
  });

  test('a file with more text than the limit is refused', async () => {
    const limits = { ...PARSE_LIMITS, text: 100 };
    expect(await parse('text/plain', 'x'.repeat(101), { limits })).toEqual(unreadable('too_much_text'));
  });

  test('a file that needs more memory than the limit is refused, and the process ends before it takes more', async () => {
    const limits = { ...PARSE_LIMITS, memoryBytes: 60 * 1024 * 1024 };
    expect(await parse('text/plain', 'x y '.repeat(2_000_000), { limits })).toEqual(unreadable('too_much_memory'));
  });

  test('a file that needs more time than the limit is refused, and the busy process is killed', async () => {
    const limits = { ...PARSE_LIMITS, timeMs: 1_000 };
    // The time for unclosed elements grows with the square of their number.
    expect(await parse('text/html', '<div>'.repeat(3_000_000), { limits })).toEqual(unreadable('too_slow'));
  });

  test('the process is killed when its worker aborts the parse', async () => {
    const abort = new AbortController();
    const parsing = parse('text/html', '<div>'.repeat(3_000_000), { signal: abort.signal });
    abort.abort();
    expect(await parsing).toEqual({ kind: 'died' });
  });
});

test('the parser fetches no address in a file and runs no script in it', async () => {
  const requested: string[] = [];
  const server = createServer((req, res) => {
    requested.push(req.url ?? '');
    res.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const html = `<link rel=stylesheet href="${url}/css"><script src="${url}/js"></script><img src="${url}/img">
    <iframe src="${url}/frame"></iframe><!DOCTYPE x [<!ENTITY e SYSTEM "${url}/entity">]>&e; words`;
  expect(textsOf(await parse('text/html', html)).join()).toContain('&e; words');
  const action = `/OpenAction << /S /JavaScript /JS (app.launchURL\\("${url}/pdf"\\)) >>`;
  expect(textsOf(await parse('application/pdf', makePdf(['words'], action)))).toEqual(['words']);
  await new Promise((resolve) => server.close(resolve));
  expect(requested).toEqual([]);
});

test('the parser thread cannot open a network connection', async () => {
  const open = Socket.prototype.connect;
  try {
    forbidNetwork();
    await expect(fetch('http://127.0.0.1:1/')).rejects.toThrow();
    expect(() => new Socket().connect(1, '127.0.0.1')).toThrow('the parser has no network');
  } finally {
    Socket.prototype.connect = open;
  }
});
