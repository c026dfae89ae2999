// The one error of the embedded default: something that keeps it from starting, told to whoever runs the project.

/** The message says what is wrong and what to do about it, and never holds a secret. */
export class EmbeddedStartError extends Error {
  override readonly name = 'EmbeddedStartError';
}

/** The code of a Node system error such as ENOENT, or null. Not by `instanceof`: jest runs tests in a realm of its own. */
export function systemErrorCode(error: unknown): string | null {
  return textOf(error, 'code');
}

/** What went wrong, in one line fit for a log. */
export function reasonOf(error: unknown): string {
  return textOf(error, 'message') ?? String(error);
}

/** A property of an error, when it is there and holds text. */
export function textOf(error: unknown, property: 'code' | 'message' | 'stderr'): string | null {
  if (typeof error !== 'object' || error === null || !(property in error)) return null;
  const value: unknown = Reflect.get(error, property);
  return typeof value === 'string' ? value : null;
}
