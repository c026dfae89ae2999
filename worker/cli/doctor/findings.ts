// The result of `durable-room doctor`: one finding per check, for a person or as JSON.

export type Area = 'postgres' | 'temporal' | 'master keys' | 'model keys';

/** `note`: worth knowing, but the operator of the deployment need not act. */
export type FindingState = 'ok' | 'note' | 'wrong';

export interface Finding {
  readonly area: Area;
  readonly check: string;
  readonly state: FindingState;
  readonly message: string;
  /** What to type or to set, if the check failed. */
  readonly fix?: string;
}

const MARKS: Readonly<Record<FindingState, string>> = { ok: 'ok   ', note: 'note ', wrong: 'WRONG' };

/** Lines for a person, in the order of the checks. */
export function printFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map((finding) => label(finding).length));
  const lines = findings.flatMap((finding) => {
    const [first = '', ...more] = finding.message.split('\n');
    const indent = ' '.repeat(MARKS.ok.length + width + 4);
    const fix = finding.fix?.split('\n').map((line, at) => `${indent}${at === 0 ? '→ ' : '  '}${line}`) ?? [];
    return [
      `${MARKS[finding.state]}  ${label(finding).padEnd(width)}  ${first}`,
      ...more.map((line) => `${indent}${line}`),
      ...fix,
    ];
  });
  const wrong = findings.filter((finding) => finding.state === 'wrong').length;
  const sum = wrong === 0 ? 'All is well.' : `${wrong} of ${findings.length} checks failed.`;
  return [...lines, '', sum].join('\n');
}

export function isAllWell(findings: readonly Finding[]): boolean {
  return findings.every((finding) => finding.state !== 'wrong');
}

function label({ area, check }: Finding): string {
  return `${area}: ${check}`;
}
