// The search attributes of a run in a namespace: which are missing, and how they come there.

import type { Connection } from '@temporalio/client';
import { SEARCH_ATTRIBUTES } from '../../workflows/search-attributes';

/** IndexedValueType, as gRPC numbers it. */
const KEYWORD = 2;

export interface MissingSearchAttributes {
  readonly missing: readonly string[];
  /** There under the same name, and not as a Keyword: queries on them would fail. */
  readonly mistyped: readonly string[];
}

type Reaching = Pick<Connection, 'operatorService'>;

export async function findMissingSearchAttributes(
  { operatorService }: Reaching,
  namespace: string,
): Promise<MissingSearchAttributes> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  const found = customAttributes ?? {};
  return {
    missing: SEARCH_ATTRIBUTES.filter((name) => !(name in found)),
    mistyped: SEARCH_ATTRIBUTES.filter((name) => name in found && Number(found[name]) !== KEYWORD),
  };
}

/** The command that adds them, for a person to type. */
export function searchAttributesCommand(namespace: string, names: readonly string[]): string {
  const flags = names.map((name) => `--name ${name} --type Keyword`).join(' ');
  return `temporal operator search-attribute create --namespace ${namespace} ${flags}`;
}

/** Adds those that are missing. Idempotent. */
export async function installSearchAttributes({ operatorService }: Reaching, namespace: string): Promise<string[]> {
  const { missing } = await findMissingSearchAttributes({ operatorService }, namespace);
  if (missing.length === 0) return [];
  const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
  await operatorService.addSearchAttributes({ namespace, searchAttributes });
  return [...missing];
}

/**
 * Checks that the namespace has the search attributes of a run: without them every start would fail.
 * @throws Error that names those missing and the command that adds them
 */
export async function requireSearchAttributes(temporal: {
  client: { connection: Reaching };
  namespace: string;
}): Promise<void> {
  const { client, namespace } = temporal;
  const { missing, mistyped } = await findMissingSearchAttributes(client.connection, namespace);
  if (missing.length > 0) {
    throw new Error(
      `Namespace "${namespace}" lacks the search attributes ${missing.join(', ')}. Add them with:\n` +
        `  ${searchAttributesCommand(namespace, missing)}`,
    );
  }
  if (mistyped.length > 0) {
    throw new Error(
      `Namespace "${namespace}" has search attributes that are not of type Keyword: ${mistyped.join(', ')}`,
    );
  }
}
