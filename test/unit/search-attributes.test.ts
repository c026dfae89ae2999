// Search attributes with our names and another type. With such an attribute, every start or every query would fail.

import { findMissingSearchAttributes, requireSearchAttributes } from '../../worker/temporal/search-attributes';
import { SEARCH_ATTRIBUTES } from '../../workflows/search-attributes';

const TEXT = 1;
const KEYWORD = 2;

/** A connection to a namespace with these search attributes. Other methods are missing. */
function connectionWith(customAttributes: Record<string, number>) {
  const operatorService = { listSearchAttributes: async () => ({ customAttributes }) };
  return { operatorService } as unknown as Parameters<typeof findMissingSearchAttributes>[0];
}

const ALL = Object.fromEntries(SEARCH_ATTRIBUTES.map((name) => [name, KEYWORD]));

test.each([
  ['all of them', ALL, [], []],
  ['none', {}, [...SEARCH_ATTRIBUTES], []],
  ['one of another type', { ...ALL, RoomId: TEXT }, [], ['RoomId']],
])('a namespace with %s', async (_, has, missing, mistyped) => {
  expect(await findMissingSearchAttributes(connectionWith(has), 'default')).toEqual({ missing, mistyped });
});

test('a worker refuses to start if an attribute has another type, and names the attribute', async () => {
  const client = { connection: connectionWith({ ...ALL, RunEnding: TEXT }) };
  await expect(requireSearchAttributes({ client, namespace: 'default' })).rejects.toThrow(
    /not of type Keyword: RunEnding/,
  );
  const right = { connection: connectionWith(ALL) };
  await expect(requireSearchAttributes({ client: right, namespace: 'default' })).resolves.toBeUndefined();
});
