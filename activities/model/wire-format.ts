// The interface of a wire format: the SDK builds its request, and our own reader reads its answer.

import type { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { Body, Json } from './body';

/**
 * The SDK's model. Only `doGenerate` is used: `generateText` adds retries, tools and steps, and takes twice the CPU.
 */
export type SdkModel = Pick<ReturnType<ReturnType<typeof createOpenAICompatible>>, 'doGenerate'>;
export type SdkOptions = Parameters<SdkModel['doGenerate']>[0];

/** A JSON object, in the type that the SDK's options have. */
export type JsonObject = NonNullable<SdkOptions['providerOptions']>[string];

export interface SdkSettings {
  readonly baseURL: string;
  readonly fetch: typeof fetch;
}

export interface WireFormat {
  /** Makes the SDK's model of this name. It never gets the key, so no error of the SDK can hold the key. */
  readonly makeModel: (name: string, settings: SdkSettings) => SdkModel;
  /** The options that ask a model of this name for a reply in our JSON schema, and that limit its length. */
  readonly replyOptions: (name: string) => Partial<SdkOptions>;
  readonly keyHeader: (key: string) => Readonly<Record<string, string>>;
  /** The answer or the error in a body with a success status. Null: the body holds neither. */
  readonly readEnvelope: (json: Json) => Body | null;
}

/** A placeholder where the SDK requires a key. provider.ts adds the real key later. */
export const NO_KEY = 'none';
