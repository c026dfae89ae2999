// One clock for all processes of this machine, with a finer resolution than Date.now.

/** Milliseconds since 1970, with fractions. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
