// Runs single model calls against a scripted provider, and asserts the rules that are the same for every call.

import {
  requestReply,
  writeRequest,
  type ModelAnswer,
  type ModelEndpoint,
  type ModelPrompt,
  type RequestOptions,
  type WrittenRequest,
} from '../../activities/model/provider';
import { startScriptedModel, type ScriptedAnswer, type ScriptedModel } from './scripted-model-server';
import type { WireFormat } from './wire-formats';

export const KEY = 'sk-canarykey-0123456789';
/** A text in answers of the provider outside of the reply. The result of a call must never contain it. */
export const CANARY = 'canarybody';

/** A model for each format that accepts a JSON schema in the way of the format. */
export const MODELS: Readonly<Record<WireFormat, string>> = {
  openai_compatible: 'some-model',
  openai: 'gpt-5',
  anthropic: 'claude-sonnet-4-5',
};

type Changes = Partial<ModelEndpoint & RequestOptions & { apiKey: string; prompt: ModelPrompt }>;

export interface ModelCalls {
  readonly model: ScriptedModel;
  /** Writes a request to the default endpoint with these changes, and does not send it. */
  write(changes?: Changes): WrittenRequest;
  /** Makes one call with the default endpoint and prompt, and these changes. */
  call(changes?: Changes): Promise<ModelAnswer>;
  /** The result of one call with this answer. Fails unless exactly one request was sent and the result has no canary. */
  callGiven(scripted: ScriptedAnswer, changes?: Changes): Promise<ModelAnswer>;
}

/**
 * Starts the provider for a test file or a `describe` with calls of this format. Fails each test that prints to the
 * console.
 */
export function useModelCalls(protocol: WireFormat): ModelCalls {
  let started: ScriptedModel | null = null;
  const printed: unknown[][] = [];

  beforeAll(async () => {
    started = await startScriptedModel();
    for (const level of ['log', 'info', 'warn', 'error', 'debug'] as const) {
      jest.spyOn(console, level).mockImplementation((...texts: unknown[]) => void printed.push(texts));
    }
  });
  afterEach(() => {
    started?.reset();
    expect(printed.splice(0)).toEqual([]);
  });
  afterAll(async () => {
    jest.restoreAllMocks();
    await started?.stop();
  });

  const calls: ModelCalls = {
    get model() {
      if (started === null) throw new Error('the scripted model is started in beforeAll');
      return started;
    },
    write({ prompt = { system: 'You are scribe.', user: 'Someone wrote: hi' }, ...changes } = {}) {
      const endpoint = { protocol, baseUrl: calls.model.url, model: MODELS[protocol], ownerSupplied: false };
      return writeRequest({ ...endpoint, ...changes }, prompt);
    },
    call({
      signal = new AbortController().signal,
      timeoutMs = 5000,
      allowedHosts = [],
      apiKey = KEY,
      ...request
    } = {}) {
      return requestReply(calls.write(request), apiKey, { signal, timeoutMs, allowedHosts });
    },
    async callGiven(scripted, changes) {
      calls.model.script(scripted);
      const result = await calls.call(changes);
      expect(calls.model.requests).toHaveLength(1);
      expect(calls.model.connections).toBe(1);
      expect(JSON.stringify(result)).not.toContain('canary');
      return result;
    },
  };
  return calls;
}
