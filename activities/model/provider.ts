// One request to a model, and what came of it. No retry, no clock of its own, no database: `call-model` claims the
// request first and decides afterwards. Keys, bodies, headers and messages of the provider stay in this folder.

import { AsyncLocalStorage } from 'node:async_hooks';

import { isAllowedHost, isPublicAddress, refuseOwnerAddress } from '../../prisma/model-address';
import { calledBase, cleanModelKey, normalizeBaseUrl, type ModelProtocol } from '../../prisma/model-endpoint';
import type { RefusalCode } from '../../workflows/contract';
import { anthropicMessages } from './anthropic-messages';
import { chatCompletions } from './chat-completions';
import { exchangeOnce, type ExchangeRules } from './exchange';
import { judge, look, type ModelAnswer, type Seen } from './judge';
import { openaiResponses } from './openai-responses';
import { cleanText } from './reply-text';
import type { SdkModel, WireFormat } from './wire-format';

export type { ModelAnswer } from './judge';

// The SDK prints its warnings to the console, and they can hold parts of the request.
globalThis.AI_SDK_LOG_WARNINGS = false;

export interface ModelEndpoint {
  baseUrl: string;
  apiKey: string;
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

const WIRE_FORMATS: Readonly<Record<ModelProtocol, WireFormat>> = {
  openai_compatible: chatCompletions,
  openai: openaiResponses,
  anthropic: anthropicMessages,
};

/**
 * Sends one request, or none when the endpoint itself is unusable, never two, and says what came of it.
 * Never rejects for anything a provider does, and nothing it returns but the reply holds a text of the provider.
 */
export async function requestReply(
  endpoint: ModelEndpoint,
  prompt: ModelPrompt,
  options: RequestOptions,
): Promise<ModelAnswer> {
  const url = normalizeBaseUrl(endpoint.baseUrl, endpoint.protocol);
  if (!url.ok) return unsent('address_refused');
  const { allowedHosts = [] } = options;
  const isGuarded = endpoint.ownerSupplied && !isAllowedHost(url.url, allowedHosts);
  // The door asks this too; what is in the database may have come another way, or be older than the allow-list.
  if (isGuarded && refuseOwnerAddress(url.url, allowedHosts) !== null) return unsent('address_refused');
  const key = cleanModelKey(endpoint.apiKey);
  if (!key.ok) return unsent('key_rejected');

  const format = WIRE_FORMATS[endpoint.protocol];
  const door = openDoor(format, key.key, { ...options, ...(isGuarded ? { allowsAddress: isPublicAddress } : {}) });
  let text: string | null;
  try {
    const model = modelAt(calledBase(url.url, endpoint.protocol), endpoint);
    const generated = await doors.run(door.fetch, () =>
      model.doGenerate({
        ...format.askFor(endpoint.model),
        prompt: [
          // Half a surrogate pair, left by a cut somewhere, makes a body that strict servers refuse.
          { role: 'system', content: cleanText(prompt.system) },
          { role: 'user', content: [{ type: 'text', text: cleanText(prompt.user) }] },
        ],
        ...(endpoint.maxOutputTokens === undefined ? {} : { maxOutputTokens: endpoint.maxOutputTokens }),
      }),
    );
    text = generated.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  } catch {
    // The SDK's error holds the request and the answer; what the door saw says all that is needed.
    text = null;
  }
  return judge(door.seen(), text, key.key);
}

function unsent(code: RefusalCode): ModelAnswer {
  return { kind: 'refused', code, status: null, providerCode: null };
}

/** Models made so far; the SDK takes half a millisecond to make one. They hold no key and no request. */
const models = new Map<string, SdkModel>();
const MODELS_LIMIT = 100;

/** The door of the request that is under way: a model is shared by requests, a door is not. */
const doors = new AsyncLocalStorage<typeof fetch>();

function modelAt(baseURL: string, { protocol, model: name }: Pick<ModelEndpoint, 'protocol' | 'model'>): SdkModel {
  const place = JSON.stringify([protocol, baseURL, name]);
  const known = models.get(place);
  if (known !== undefined) return known;
  const model = WIRE_FORMATS[protocol].makeModel(name, {
    baseURL,
    fetch: async (url, init) => {
      const door = doors.getStore();
      if (door === undefined) throw new Error('a request without its door');
      return door(url, init);
    },
  });
  if (models.size >= MODELS_LIMIT) models.clear();
  models.set(place, model);
  return model;
}

/**
 * The SDK's only way out: a `fetch` that goes through once, keeps what it saw, and hands the SDK an answer only when
 * there is one that it can read. The key is put in here, behind the SDK.
 */
function openDoor(format: WireFormat, key: string, rules: ExchangeRules): { fetch: typeof fetch; seen: () => Seen } {
  let seen: Seen = { kind: 'nothing' };
  let used = false;
  return {
    seen: () => seen,
    fetch: async (url, init) => {
      if (used) throw new Error('one request per call');
      used = true;
      const exchange = await exchangeOnce(
        {
          url: url instanceof Request ? url.url : String(url),
          headers: { ...Object.fromEntries(new Headers(init?.headers)), ...format.keyHeader(key) },
          body: typeof init?.body === 'string' ? init.body : '',
        },
        rules,
      );
      seen = look(exchange, format);
      if (seen.kind !== 'envelope') throw new Error('no answer');
      return new Response(seen.envelope.mendedBody, { headers: { 'content-type': 'application/json' } });
    },
  };
}
