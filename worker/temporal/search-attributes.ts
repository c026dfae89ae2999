// The search attributes of a run in a namespace: finds and installs missing ones.

import type { Connection } from '@temporalio/client';
import { SEARCH_ATTRIBUTES } from '../../workflows/search-attributes';

/** IndexedValueType.KEYWORD of Temporal's gRPC API. */
const KEYWORD = 2;

export interface MissingSearchAttributes {
  readonly missing: readonly string[];
  /** Exist with another type than Keyword: queries on them would fail. */
  readonly mistyped: readonly string[];
}

type HasOperatorService = Pick<Connection, 'operatorService'>;

export async function findMissingSearchAttributes(
  { operatorService }: HasOperatorService,
  namespace: string,
): Promise<MissingSearchAttributes> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  const found = customAttributes ?? {};
  return {
    missing: SEARCH_ATTRIBUTES.filter((name) => !(name in found)),
    mistyped: SEARCH_ATTRIBUTES.filter((name) => name in found && Number(found[name]) !== KEYWORD),
  };
}

/** The command that adds these search attributes, for a person to type. */
export function searchAttributesCommand(namespace: string, names: readonly string[]): string {
  const flags = names.map((name) => `--name ${name} --type Keyword`).join(' ');
  return `temporal operator search-attribute create --namespace ${namespace} ${flags}`;
}

/** Adds the missing search attributes and returns their names. Idempotent. */
export async function installSearchAttributes(
  { operatorService }: HasOperatorService,
  namespace: string,
): Promise<string[]> {
  const { missing } = await findMissingSearchAttributes({ operatorService }, namespace);
  if (missing.length === 0) return [];
  const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
  await operatorService.addSearchAttributes({ namespace, searchAttributes });
  return [...missing];
}

/**
 * Checks that the namespace has the search attributes of a run; without them every start would fail.
 * @throws Error that names the missing ones and the command that adds them
 */
export async function requireSearchAttributes(temporal: {
  client: { connection: HasOperatorService };
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
