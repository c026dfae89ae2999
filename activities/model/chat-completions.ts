// OpenAI's chat-completions format, as spoken by any OpenAI-compatible server. Each server reads it in its own way, so
// what arrives is mended more than in the other formats.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

import { asObject, holdsError, readContent, readCount, readFacts, readText } from './body';
import { REPLY_JSON_SCHEMA } from './reply';
import type { WireFormat } from './wire-format';

const PROVIDER_NAME = 'model';

export const chatCompletions: WireFormat = {
  makeModel: (name, settings) => createOpenAICompatible({ name: PROVIDER_NAME, ...settings })(name),
  // Passed through as it is: the SDK would ask for it only from servers that it was told can do it.
  askFor: () => ({
    providerOptions: {
      [PROVIDER_NAME]: {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'reply', strict: true, schema: REPLY_JSON_SCHEMA },
        },
      },
    },
  }),
  keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
  readEnvelope(json) {
    const choice = asObject(Array.isArray(json.choices) ? json.choices[0] : null);
    if (choice === null) return null;
    // Some routers put the error of the provider behind them into the choice.
    if (holdsError(choice)) return { kind: 'error', facts: readFacts(choice) };
    const message = asObject(choice.message);
    if (message === null) return null;
    const { text, hasRefusal } = readContent(message.content);
    const finishReason = readText(choice.finish_reason);
    const usage = asObject(json.usage);
    return {
      kind: 'answer',
      envelope: {
        mendedBody: JSON.stringify({
          choices: [{ message: { role: 'assistant', content: text }, finish_reason: finishReason }],
        }),
        finishReason,
        isIncomplete: false,
        hasRefusal: hasRefusal || (readText(message.refusal) ?? '').trim() !== '',
        // What was read from a cache is counted in `prompt_tokens` already.
        usage: { inputTokens: readCount(usage?.prompt_tokens), outputTokens: readCount(usage?.completion_tokens) },
      },
    };
  },
};
