// Reads a model key and its address as a person typed them. The API and the worker both use this file, so that a real
// call uses the same address that the API has checked.

/** Longer than any known key or address, and short enough for every limit of headers and logs. */
const KEY_LENGTH_LIMIT = 1_000;
const URL_LENGTH_LIMIT = 2_000;

/** The protocols of model servers: chat-completions, OpenAI Responses, Anthropic Messages. */
export const MODEL_PROTOCOLS = ['openai_compatible', 'openai', 'anthropic'] as const;
export type ModelProtocol = (typeof MODEL_PROTOCOLS)[number];

/** The path of each protocol's request, below the base URL. */
const CALLED_PATHS: Readonly<Record<ModelProtocol, string>> = {
  openai_compatible: '/chat/completions',
  openai: '/responses',
  anthropic: '/messages',
};

export type BaseUrl = { ok: true; url: string } | { ok: false; reason: string };
export type ModelKeyText = { ok: true; key: string } | { ok: false; reason: string };

/** The protocol of a provider that the operator configured under this name. */
export function protocolOfProvider(name: string): ModelProtocol {
  return MODEL_PROTOCOLS.find((protocol) => protocol === name) ?? 'openai_compatible';
}

/**
 * The form in which an address is stored and called, without a slash at its end. Normalizing it again changes nothing.
 * `/v1` is appended to a host without a path, and to an Anthropic address without a version. A full
 * `…/chat/completions` (or the path of another protocol) without `/v1` before it is kept. `reason` is for people, and
 * repeats nothing of the input.
 */
export function normalizeBaseUrl(input: string, protocol: ModelProtocol): BaseUrl {
  const text = input.trim();
  if (text.length > URL_LENGTH_LIMIT) return refused(`The base URL is over ${URL_LENGTH_LIMIT} characters.`);
  // `URL` drops a line break and encodes a space, so the result would not be the address that was typed.
  if (/[\s\p{Cc}\\]/u.test(text)) return refused('The base URL holds a space, a control character or a backslash.');
  if (!/^https?:\/\/[^/]/i.test(text)) return refused('The base URL must start with https:// or http:// and a host.');
  if (!URL.canParse(text)) return refused('The base URL is not a valid URL.');
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/i.test(text)) {
    return refused('The base URL must not hold a user name or password.');
  }
  // An empty "?" or "#" leaves nothing in the parsed URL, so the text is checked.
  if (text.includes('?')) return refused('The base URL must not have a query.');
  if (text.includes('#')) return refused('The base URL must not have a fragment.');

  const path = url.pathname.replace(/\/{2,}/g, '/').replace(/\/$/, '');
  for (const other of MODEL_PROTOCOLS) {
    if (other !== protocol && path.endsWith(CALLED_PATHS[other])) {
      return refused(`The base URL ends in the path of another protocol, ${other}.`);
    }
  }
  const called = CALLED_PATHS[protocol];
  if (path.endsWith(called)) {
    const before = path.slice(0, -called.length);
    return { ok: true, url: url.origin + (hasVersion(before, protocol) ? before : path) };
  }
  return { ok: true, url: url.origin + (hasVersion(path, protocol) ? path : `${path}/v1`) };
}

/** True for a path that needs no `/v1`. */
function hasVersion(path: string, protocol: ModelProtocol): boolean {
  return protocol === 'anthropic' ? /\/v\d+[a-z0-9]*$/.test(path) : path !== '';
}

/** The part of a request's address before the protocol's path, for a normalized base URL. */
export function calledBase(normalizedUrl: string, protocol: ModelProtocol): string {
  const called = CALLED_PATHS[protocol];
  return normalizedUrl.endsWith(called) ? normalizedUrl.slice(0, -called.length) : normalizedUrl;
}

/**
 * A pasted key without the white space around it, or the reason why it is not a key: it must fit in an HTTP header.
 * `reason` repeats nothing of the key.
 */
export function cleanModelKey(input: string): ModelKeyText {
  const key = input.trim();
  if (key === '') return refused('The key is empty.');
  if (key.length > KEY_LENGTH_LIMIT) return refused(`The key is over ${KEY_LENGTH_LIMIT} characters.`);
  if (/\s/.test(key)) return refused('The key holds a space or a line break: paste the key alone.');
  if (!/^[\x21-\x7e]+$/.test(key)) {
    return refused('The key holds a character that is not plain ASCII, such as a curly quote: paste the key alone.');
  }
  return { ok: true, key };
}

function refused(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}
