// OpenAI's chat-completions format, which every OpenAI-compatible server uses. Servers deviate from it more than from
// the other formats, so this reader accepts more.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

import { asObject, holdsError, readContent, readCount, readFacts, readText } from './body';
import { REPLY_JSON_SCHEMA } from './reply';
import type { WireFormat } from './wire-format';

const PROVIDER_NAME = 'model';

export const chatCompletions: WireFormat = {
  makeModel: (name, settings) => createOpenAICompatible({ name: PROVIDER_NAME, ...settings })(name),
  // As a provider option, which the SDK passes on unchanged. It sends `responseFormat` only to servers that it knows.
  replyOptions: () => ({
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
    // Some routers put the error of the provider into the choice.
    if (holdsError(choice)) return { kind: 'error', facts: readFacts(choice) };
    const message = asObject(choice.message);
    if (message === null) return null;
    const { text, hasRefusal } = readContent(message.content);
    const usage = asObject(json.usage);
    return {
      kind: 'answer',
      envelope: {
        text,
        finishReason: readText(choice.finish_reason),
        isIncomplete: false,
        hasRefusal: hasRefusal || (readText(message.refusal) ?? '').trim() !== '',
        // `prompt_tokens` already includes the tokens that were read from a cache.
        usage: { inputTokens: readCount(usage?.prompt_tokens), outputTokens: readCount(usage?.completion_tokens) },
      },
    };
  },
};
