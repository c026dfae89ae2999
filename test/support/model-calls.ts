// One model call against a scripted provider, with what holds for every such call asserted beside it.

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
/** Stands in texts of the provider that are not the reply, and must never come back. */
export const CANARY = 'canarybody';

/** Models that take a JSON schema in their format's own way. */
export const MODELS: Readonly<Record<WireFormat, string>> = {
  openai_compatible: 'some-model',
  openai: 'gpt-5',
  anthropic: 'claude-sonnet-4-5',
};

type Changes = Partial<ModelEndpoint & RequestOptions & { apiKey: string; prompt: ModelPrompt }>;

export interface ModelCalls {
  readonly model: ScriptedModel;
  /** A request that is written and not sent, to a usual endpoint but for these changes. */
  write(changes?: Changes): WrittenRequest;
  /** One call, of a usual endpoint and prompt but for these changes. */
  call(changes?: Changes): Promise<ModelAnswer>;
  /** What one call came to, given this answer: exactly one request left, and no canary came back. */
  callGiven(scripted: ScriptedAnswer, changes?: Changes): Promise<ModelAnswer>;
}

/**
 * Starts the provider for a test file, or a `describe`, whose calls are of this format; fails each test in which anything
 * was printed to the console.
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
      const usual = { protocol, baseUrl: calls.model.url, model: MODELS[protocol], ownerSupplied: false };
      return writeRequest({ ...usual, ...changes }, prompt);
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
      const came = await calls.call(changes);
      expect(calls.model.requests).toHaveLength(1);
      expect(calls.model.connections).toBe(1);
      expect(JSON.stringify(came)).not.toContain('canary');
      return came;
    },
  };
  return calls;
}
