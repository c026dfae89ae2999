// The error of the local servers: why they can't start, for the person who runs the project.

/** The message explains the problem and what to do, and never holds a secret. */
export class EmbeddedStartError extends Error {
  override readonly name = 'EmbeddedStartError';
}

/** The code of a Node system error such as ENOENT, or null. Without `instanceof`, because jest runs tests in another realm. */
export function systemErrorCode(error: unknown): string | null {
  return textOf(error, 'code');
}

/** The message of an error, for a log line. */
export function reasonOf(error: unknown): string {
  return textOf(error, 'message') ?? String(error);
}

/** A property of an error if it is a string, else null. */
export function textOf(error: unknown, property: 'code' | 'message' | 'stderr'): string | null {
  if (typeof error !== 'object' || error === null || !(property in error)) return null;
  const value: unknown = Reflect.get(error, property);
  return typeof value === 'string' ? value : null;
}
