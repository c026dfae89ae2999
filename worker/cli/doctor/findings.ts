// What `npm run doctor` says: one finding per thing it looked at, for a person or as JSON.

export type Area = 'postgres' | 'temporal' | 'master keys' | 'model keys';

/** `note`: worth knowing, and nobody who runs the deployment has to act. */
export type FindingState = 'ok' | 'note' | 'wrong';

export interface Finding {
  readonly area: Area;
  readonly check: string;
  readonly state: FindingState;
  readonly says: string;
  /** What to type or to set, where something is to be mended. */
  readonly mend?: string;
}

const MARKS: Readonly<Record<FindingState, string>> = { ok: 'ok   ', note: 'note ', wrong: 'WRONG' };

/** Lines for a person, in the order in which things were looked at. */
export function printFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map((finding) => label(finding).length));
  const lines = findings.flatMap((finding) => {
    const [first = '', ...more] = finding.says.split('\n');
    const indent = ' '.repeat(MARKS.ok.length + width + 4);
    const mend = finding.mend?.split('\n').map((line, at) => `${indent}${at === 0 ? '→ ' : '  '}${line}`) ?? [];
    return [
      `${MARKS[finding.state]}  ${label(finding).padEnd(width)}  ${first}`,
      ...more.map((line) => `${indent}${line}`),
      ...mend,
    ];
  });
  const wrong = findings.filter((finding) => finding.state === 'wrong').length;
  const sum = wrong === 0 ? 'All is well.' : `${wrong} of ${findings.length} checks found something wrong.`;
  return [...lines, '', sum].join('\n');
}

export function isAllWell(findings: readonly Finding[]): boolean {
  return findings.every((finding) => finding.state !== 'wrong');
}

function label({ area, check }: Finding): string {
  return `${area}: ${check}`;
}
