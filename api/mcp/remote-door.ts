// The API at an address, with the key that this process was given.

import { answerOf, writtenOut, type Door } from './door';

/** Longer than the API's own timeouts: it answers, if only that it could not. */
const ANSWER_WITHIN_MS = 30_000;

/** `url`: of the API, without a slash at its end. */
export function remoteDoor(url: string, key: string): Door {
  return async (request) => {
    const { path, headers, body } = writtenOut(request);
    const answer = await fetch(url + path, {
      method: request.method,
      headers: { ...headers, authorization: `Bearer ${key}` },
      ...(body !== undefined && { body }),
      // The key is for this address and no other.
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    return answerOf(answer.status, (name) => answer.headers.get(name), await answer.text());
  };
}
