// One request to a model, and what came of it. No retry, no clock of its own, no database: `call-model` claims the
// request first and decides afterwards. Keys, bodies, headers and messages of the provider stay in this folder.

import { isAllowedHost, isPublicAddress, refuseOwnerAddress } from '../../workflows/policy/model-address';
import { calledBase, cleanModelKey, normalizeBaseUrl, type ModelProtocol } from '../../workflows/policy/model-endpoint';
import type { RefusalCode } from '../../workflows/contract';
import { anthropicMessages } from './anthropic-messages';
import { chatCompletions } from './chat-completions';
import { exchangeOnce, type ExchangeRequest } from './exchange';
import { judge, look, type ModelAnswer } from './judge';
import { openaiResponses } from './openai-responses';
import { cleanText } from './reply-text';
import type { SdkModel, WireFormat } from './wire-format';

export type { ModelAnswer } from './judge';

// The SDK prints its warnings to the console, and they can hold parts of the request.
globalThis.AI_SDK_LOG_WARNINGS = false;

export interface ModelEndpoint {
  baseUrl: string;
  protocol: ModelProtocol;
  model: string;
  /** An address of the owner's own, which may not reach into our network. */
  ownerSupplied: boolean;
  maxOutputTokens?: number;
}

export interface ModelPrompt {
  system: string;
  user: string;
}

export interface RequestOptions {
  signal: AbortSignal;
  /** From the start of the request to the last byte of its answer. */
  timeoutMs: number;
  /** `host:port` of model servers inside our network that owners may name. Absent: none. */
  allowedHosts?: readonly string[];
}

/** A request that is ready to be sent, but for the key. Whoever drops it has sent nothing and leaves nothing open. */
export interface WrittenRequest {
  readonly endpoint: ModelEndpoint;
  /** The endpoint's address, normalised. Null: it is none. */
  readonly url: string | null;
  /** Null: the SDK could make no request of it. */
  readonly post: Promise<ExchangeRequest | null>;
  /** The text that the SDK reads out of the provider's answer, or null. */
  read(answer: Response): Promise<string | null>;
}

const WIRE_FORMATS: Readonly<Record<ModelProtocol, WireFormat>> = {
  openai_compatible: chatCompletions,
  openai: openaiResponses,
  anthropic: anthropicMessages,
};

/** Has the SDK write the request down, as far as the moment in which it would send it. Touches no network. */
export function writeRequest(endpoint: ModelEndpoint, prompt: ModelPrompt): WrittenRequest {
  let wrote = (_post: ExchangeRequest | null): void => {};
  const post = new Promise<ExchangeRequest | null>((resolve) => {
    wrote = resolve;
  });
  let answered = (_answer: Response): void => {};
  const answer = new Promise<Response>((resolve) => {
    answered = resolve;
  });
  let used = false;
  const door: typeof fetch = async (url, init) => {
    if (used) throw new Error('one request per call');
    used = true;
    wrote({
      url: url instanceof Request ? url.url : String(url),
      headers: Object.fromEntries(new Headers(init?.headers)),
      body: typeof init?.body === 'string' ? init.body : '',
    });
    return answer;
  };
  const base = normalizeBaseUrl(endpoint.baseUrl, endpoint.protocol);
  const url = base.ok ? base.url : null;
  const text = generate(url, endpoint, prompt, door);
  // It may have failed before it came to its door.
  void text.then(() => wrote(null));
  return {
    endpoint,
    url,
    post,
    read: (given) => {
      answered(given);
      return text;
    },
  };
}

/**
 * Sends this request, or nothing when its endpoint is unusable, never twice, and says what came of it.
 * Never rejects for anything a provider does, and nothing it returns but the reply holds a text of the provider.
 */
export async function requestReply(
  request: WrittenRequest,
  apiKey: string,
  options: RequestOptions,
): Promise<ModelAnswer> {
  const { endpoint, url } = request;
  if (url === null) return unsent('address_refused');
  const { allowedHosts = [], ...rules } = options;
  const isGuarded = endpoint.ownerSupplied && !isAllowedHost(url, allowedHosts);
  // The door asks this too; what is in the database may have come another way, or be older than the allow-list.
  if (isGuarded && refuseOwnerAddress(url, allowedHosts) !== null) return unsent('address_refused');
  const key = cleanModelKey(apiKey);
  if (!key.ok) return unsent('key_rejected');

  const post = await request.post;
  if (post === null) return unsent('malformed_request');
  const format = WIRE_FORMATS[endpoint.protocol];
  // The key is put in here, behind the SDK.
  const headers = { ...post.headers, ...format.keyHeader(key.key) };
  const guarded = isGuarded ? { ...rules, allowsAddress: isPublicAddress } : rules;
  const seen = look(await exchangeOnce({ ...post, headers }, guarded), format);
  if (seen.kind !== 'envelope') return judge(seen, null, key.key);
  const answer = new Response(seen.envelope.mendedBody, { headers: { 'content-type': 'application/json' } });
  return judge(seen, await request.read(answer), key.key);
}

/** What the SDK makes of the answer that it is handed at `door`, its only way out. Never rejects. */
async function generate(
  url: string | null,
  endpoint: ModelEndpoint,
  prompt: ModelPrompt,
  door: typeof fetch,
): Promise<string | null> {
  if (url === null) return null;
  try {
    const model = modelAt(calledBase(url, endpoint.protocol), endpoint);
    const generated = await model.doGenerate({
      ...WIRE_FORMATS[endpoint.protocol].askFor(endpoint.model),
      prompt: [
        // Half a surrogate pair, left by a cut somewhere, makes a body that strict servers refuse.
        { role: 'system', content: cleanText(prompt.system) },
        { role: 'user', content: [{ type: 'text', text: cleanText(prompt.user) }] },
      ],
      ...(endpoint.maxOutputTokens === undefined ? {} : { maxOutputTokens: endpoint.maxOutputTokens }),
      abortSignal: signalOf(door),
    });
    return generated.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  } catch {
    // The SDK's error holds the request and the answer; what was seen of the answer says all that is needed.
    return null;
  }
}

function unsent(code: RefusalCode): ModelAnswer {
  return { kind: 'refused', code, status: null, providerCode: null };
}

/** Models made so far; the SDK takes half a millisecond to make one. They hold no key and no request. */
const models = new Map<string, SdkModel>();
const MODELS_LIMIT = 100;

/**
 * A model is shared by requests, a door is not: the signal that the SDK passes on to its `fetch` says whose it is. An
 * AsyncLocalStorage would say it too, and make every promise of the worker dearer.
 */
const doors = new WeakMap<AbortSignal, typeof fetch>();

/** A signal that nobody ever gives: an exchange is ended by its own. */
function signalOf(door: typeof fetch): AbortSignal {
  const { signal } = new AbortController();
  doors.set(signal, door);
  return signal;
}

function modelAt(baseURL: string, { protocol, model: name }: Pick<ModelEndpoint, 'protocol' | 'model'>): SdkModel {
  const place = JSON.stringify([protocol, baseURL, name]);
  const known = models.get(place);
  if (known !== undefined) return known;
  const model = WIRE_FORMATS[protocol].makeModel(name, {
    baseURL,
    fetch: async (url, init) => {
      const door = init?.signal ? doors.get(init.signal) : undefined;
      if (door === undefined) throw new Error('a request without its door');
      return door(url, init);
    },
  });
  if (models.size >= MODELS_LIMIT) models.clear();
  models.set(place, model);
  return model;
}
