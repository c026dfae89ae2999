// Calls the API over the network, with the key from the configuration of this process.

import { toApiResponse, serializeRequest, type ApiTransport } from './api-transport';

/** Longer than the API's own timeouts, so that the API reports its timeout before this one ends the request. */
const RESPONSE_TIMEOUT_MS = 30_000;

/** `url` is the address of the API, without a trailing slash. */
export function createHttpTransport(url: string, key: string): ApiTransport {
  return async (request) => {
    const { path, headers, body } = serializeRequest(request);
    const response = await fetch(url + path, {
      method: request.method,
      headers: { ...headers, authorization: `Bearer ${key}` },
      ...(body !== undefined && { body }),
      // A redirect could send the key to another address.
      redirect: 'error',
      signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
    });
    return toApiResponse(response.status, (name) => response.headers.get(name), await response.text());
  };
}
