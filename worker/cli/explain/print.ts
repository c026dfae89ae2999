// A timeline as lines for a person: the same content as the API's answer, nothing left out and nothing added.

interface Entry {
  readonly at: string;
  readonly source: string;
  readonly says: string;
}

export interface PrintedTimeline {
  readonly run: string;
  readonly room: string;
  readonly agent: string;
  readonly message: string;
  readonly state: string;
  readonly ending: string | null;
  readonly code: string | null;
  readonly history: { readonly says: string };
  readonly not_done: readonly { readonly step: string; readonly state: string; readonly code: string | null }[];
  readonly data: readonly Entry[];
}

const SOURCE_WIDTH = 'temporal'.length;

/** Times are shown whole once, then as the seconds since. */
export function printTimeline(timeline: PrintedTimeline): string {
  const first = timeline.data[0]?.at;
  const lines = timeline.data.map(({ at, source, says }) => {
    const since = (Date.parse(at) - Date.parse(first ?? at)) / 1_000;
    return `${`+${since.toFixed(3)}`.padStart(10)} s  ${source.padEnd(SOURCE_WIDTH)}  ${says}`;
  });
  const ending = timeline.ending === null ? '' : `, ${withCode(timeline.ending, timeline.code)}`;
  const left = timeline.not_done.map(({ step, state, code }) => `  ${step}: ${withCode(state, code)}`);
  return [
    `${timeline.run} of ${timeline.agent}, woken by ${timeline.message} in ${timeline.room}: ${timeline.state}${ending}`,
    timeline.history.says,
    '',
    ...(first === undefined ? [] : [`from ${first}`]),
    ...lines,
    '',
    ...(left.length === 0 ? ['Every declared step was done.'] : ['Not done:', ...left]),
  ].join('\n');
}

function withCode(word: string, code: string | null): string {
  return code === null ? word : `${word} (${code})`;
}
