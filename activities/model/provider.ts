// One request to a model and its answer. Does not retry and uses no database: call-model.ts claims the request first
// and decides afterwards. Keys, bodies, headers and messages of a provider stay in this folder.

import { isAllowedHost, isPublicAddress, refuseOwnerAddress } from '../../workflows/policy/model-address';
import { calledBase, cleanModelKey, normalizeBaseUrl, type ModelProtocol } from '../../workflows/policy/model-endpoint';
import type { RefusalCode } from '../../workflows/contract';
import { anthropicMessages } from './anthropic-messages';
import { chatCompletions } from './chat-completions';
import { exchangeOnce, type ExchangeRequest } from './exchange';
import { parseResponse, toModelAnswer, type ModelAnswer } from './model-answer';
import { openaiResponses } from './openai-responses';
import { cleanText } from './reply-text';
import type { SdkModel, WireFormat } from './wire-format';

export type { ModelAnswer } from './model-answer';

export interface ModelEndpoint {
  baseUrl: string;
  protocol: ModelProtocol;
  model: string;
  /** The owner of the key gave this address. It may not reach into our network. */
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

/** A request that is ready to be sent, except for the key. It holds no connection, so a caller may drop it. */
export interface WrittenRequest {
  readonly endpoint: ModelEndpoint;
  /** The normalized address of the endpoint. Null: the address is not valid. */
  readonly url: string | null;
  /** Null: the SDK could not build the request. */
  readonly post: Promise<ExchangeRequest | null>;
}

const WIRE_FORMATS: Readonly<Record<ModelProtocol, WireFormat>> = {
  openai_compatible: chatCompletions,
  openai: openaiResponses,
  anthropic: anthropicMessages,
};

/** Builds the request with the SDK. Uses no network. */
export function writeRequest(endpoint: ModelEndpoint, prompt: ModelPrompt): WrittenRequest {
  const base = normalizeBaseUrl(endpoint.baseUrl, endpoint.protocol);
  const url = base.ok ? base.url : null;
  return { endpoint, url, post: buildPost(url, endpoint, prompt) };
}

/**
 * Sends this request at most once, and not at all when its endpoint is not usable. Never rejects because of a provider.
 * Of the provider's texts, the answer holds only the reply.
 */
export async function requestReply(
  request: WrittenRequest,
  apiKey: string,
  options: RequestOptions,
): Promise<ModelAnswer> {
  const { endpoint, url } = request;
  if (url === null) return refuseUnsent('address_refused');
  const { allowedHosts = [], ...rules } = options;
  const isGuarded = endpoint.ownerSupplied && !isAllowedHost(url, allowedHosts);
  // The API checks this too, but a stored address may be older than the list of allowed hosts.
  if (isGuarded && refuseOwnerAddress(url, allowedHosts) !== null) return refuseUnsent('address_refused');
  const key = cleanModelKey(apiKey);
  if (!key.ok) return refuseUnsent('key_rejected');

  const post = await request.post;
  if (post === null) return refuseUnsent('malformed_request');
  const format = WIRE_FORMATS[endpoint.protocol];
  // The SDK never sees the key: it is added here, after the SDK built the request.
  const headers = { ...post.headers, ...format.keyHeader(key.key) };
  const guarded = isGuarded ? { ...rules, allowsAddress: isPublicAddress } : rules;
  const exchange = await exchangeOnce({ ...post, headers }, guarded);
  return toModelAnswer(parseResponse(exchange, format), key.key);
}

function refuseUnsent(code: RefusalCode): ModelAnswer {
  return { kind: 'refused', code, status: null, providerCode: null };
}

/** The request that the SDK would send, or null when it cannot build one. Never rejects. */
async function buildPost(
  url: string | null,
  endpoint: ModelEndpoint,
  prompt: ModelPrompt,
): Promise<ExchangeRequest | null> {
  if (url === null) return null;
  try {
    const model = modelAt(calledBase(url, endpoint.protocol), endpoint);
    await model.doGenerate({
      ...WIRE_FORMATS[endpoint.protocol].replyOptions(endpoint.model),
      prompt: [
        // Strict servers refuse a body with half of a surrogate pair, which a cut in a text can leave.
        { role: 'system', content: cleanText(prompt.system) },
        { role: 'user', content: [{ type: 'text', text: cleanText(prompt.user) }] },
      ],
      ...(endpoint.maxOutputTokens === undefined ? {} : { maxOutputTokens: endpoint.maxOutputTokens }),
    });
  } catch (error) {
    // Any other error of the SDK holds parts of the prompt, and is dropped.
    if (error instanceof CapturedRequest) return error.request;
  }
  return null;
}

/** The SDK's `fetch` throws the request instead of sending it. The SDK passes errors of `fetch` on unchanged. */
class CapturedRequest extends Error {
  readonly request: ExchangeRequest;
  constructor(request: ExchangeRequest) {
    super('captured');
    this.request = request;
  }
}

const captureFetch: typeof fetch = (url, init) =>
  Promise.reject(
    new CapturedRequest({
      url: url instanceof Request ? url.url : String(url),
      headers: Object.fromEntries(new Headers(init?.headers)),
      body: typeof init?.body === 'string' ? init.body : '',
    }),
  );

/** Models made so far: the SDK takes 0.5 ms to make one. They hold no key and no request. */
const models = new Map<string, SdkModel>();
const MODELS_LIMIT = 100;

function modelAt(baseURL: string, { protocol, model: name }: Pick<ModelEndpoint, 'protocol' | 'model'>): SdkModel {
  const id = JSON.stringify([protocol, baseURL, name]);
  const known = models.get(id);
  if (known !== undefined) return known;
  const model = WIRE_FORMATS[protocol].makeModel(name, { baseURL, fetch: captureFetch });
  if (models.size >= MODELS_LIMIT) models.clear();
  models.set(id, model);
  return model;
}
