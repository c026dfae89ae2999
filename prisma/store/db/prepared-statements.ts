// Names for the store's own statements, so that Postgres prepares each once per connection and not at every call.
// Measured: planning alone was two thirds of Postgres's CPU for a run.

import { Prisma } from '../../generated/client';

/** More than the store has. A text beyond it is sent unprepared, so that no caller can fill the server's memory. */
const PREPARED_LIMIT = 300;

/**
 * Comes first in a statement that has many shapes, or whose best plan depends on its values, as a search does. The
 * statement is sent unprepared, and Postgres plans it each time.
 */
export const UNPREPARED = Prisma.raw('/* unprepared */');

/** The names of one pool's statements: a name means the same text on all of its connections. */
export class PreparedStatements {
  private readonly names = new Map<string, string>();

  /** The name under which a text is prepared, or undefined when it is sent unprepared. */
  nameOf(text: string): string | undefined {
    if (text.startsWith(UNPREPARED.sql)) return undefined;
    const known = this.names.get(text);
    if (known !== undefined) return known;
    if (this.names.size >= PREPARED_LIMIT) return undefined;
    const name = `s${this.names.size}`;
    this.names.set(text, name);
    return name;
  }
}
