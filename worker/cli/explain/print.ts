// A timeline as lines for a person, with exactly the content of the API's answer.

interface Entry {
  readonly at: string;
  readonly source: string;
  readonly message: string;
}

export interface PrintedTimeline {
  readonly run: string;
  readonly room: string;
  readonly agent: string;
  readonly message: string;
  readonly state: string;
  readonly ending: string | null;
  readonly code: string | null;
  readonly history: { readonly message: string };
  readonly not_done: readonly { readonly step: string; readonly state: string; readonly code: string | null }[];
  readonly data: readonly Entry[];
}

const SOURCE_WIDTH = 'temporal'.length;

/** Shows the first time in full, and every other one as seconds since then. */
export function printTimeline(timeline: PrintedTimeline): string {
  const first = timeline.data[0]?.at;
  const lines = timeline.data.map(({ at, source, message }) => {
    const since = (Date.parse(at) - Date.parse(first ?? at)) / 1_000;
    return `${`+${since.toFixed(3)}`.padStart(10)} s  ${source.padEnd(SOURCE_WIDTH)}  ${message}`;
  });
  const ending = timeline.ending === null ? '' : `, ${withCode(timeline.ending, timeline.code)}`;
  const left = timeline.not_done.map(({ step, state, code }) => `  ${step}: ${withCode(state, code)}`);
  return [
    `${timeline.run} of ${timeline.agent}, woken by ${timeline.message} in ${timeline.room}: ${timeline.state}${ending}`,
    timeline.history.message,
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
