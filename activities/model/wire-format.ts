// What a wire format is to the rest of this folder: how the SDK makes its request, and how its answer is read.

import type { createOpenAICompatible } from '@ai-sdk/openai-compatible';

import type { Body, Json } from './body';

/** The SDK's model, of which one call is used: `generateText` adds retries, tools and steps, and takes twice the CPU. */
export type SdkModel = Pick<ReturnType<ReturnType<typeof createOpenAICompatible>>, 'doGenerate'>;
export type SdkOptions = Parameters<SdkModel['doGenerate']>[0];

export interface SdkSettings {
  readonly baseURL: string;
  readonly fetch: typeof fetch;
}

export interface WireFormat {
  /** Makes the SDK's model of this name. It never learns the key, so no error of its can hold it. */
  readonly makeModel: (name: string, settings: SdkSettings) => SdkModel;
  /** How a reply in our JSON schema is asked for from a model of this name, and within which length. */
  readonly askFor: (name: string) => Partial<SdkOptions>;
  readonly keyHeader: (key: string) => Readonly<Record<string, string>>;
  /** The answer in a body with a success status, or the error in it, or null when it holds neither. */
  readonly readEnvelope: (json: Json) => Body | null;
}

/** What the SDK is given where it insists on a key; the real one is put in after it. */
export const NO_KEY = 'none';
