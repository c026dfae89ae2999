// A CSV table as text in which every value has the name of its column, so that a passage can be understood alone.

import { parse } from 'csv-parse/sync';
import { PASSAGE_LENGTH, type Section } from './passages';

interface ReadRecord {
  readonly record: readonly string[];
  readonly info: { readonly lines: number };
}

/** Sections of whole records, each about as long as a passage. Null if the text can't be parsed as a table. */
export function sectionsOfCsv(text: string): Section[] | null {
  const rows = readRecords(text);
  if (rows === null) return null;
  const [head, ...records] = rows;
  if (head === undefined || records.length === 0) return null;
  const sections: Section[] = [];
  let lines: string[] = [];
  let length = 0;
  let startsAt = 1;
  const flush = (next: number): void => {
    if (lines.length > 0) sections.push({ text: `${lines.join('\n')}\n`, page: null, line: startsAt });
    lines = [];
    length = 0;
    startsAt = next;
  };
  let endOfLast = head.info.lines;
  flush(endOfLast + 1);
  for (const { record, info } of records) {
    const line = record.map((value, index) => named(head.record[index], value)).join(' | ');
    if (length + line.length > PASSAGE_LENGTH) flush(endOfLast + 1);
    lines.push(line);
    length += line.length + 1;
    endOfLast = info.lines;
  }
  flush(0);
  return sections;
}

function named(column: string | undefined, value: string): string {
  const name = column?.trim() ?? '';
  return name === '' ? value : `${name}: ${value}`;
}

function readRecords(text: string): ReadRecord[] | null {
  const [firstLine = ''] = text.split('\n', 1);
  const delimiter = [',', ';', '\t'].reduce((best, one) =>
    firstLine.split(one).length > firstLine.split(best).length ? one : best,
  );
  try {
    return parse(text, {
      delimiter,
      info: true,
      relax_column_count: true,
      skip_empty_lines: true,
    }) as unknown as ReadRecord[];
  } catch {
    return null;
  }
}
