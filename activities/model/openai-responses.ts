// OpenAI's Responses format: a list of output items, of which the messages are the answer.

import { createOpenAI } from '@ai-sdk/openai';

import { asObject, asObjects, readContent, readCount, readText } from './body';
import { REPLY_JSON_SCHEMA } from './reply';
import { NO_KEY, type WireFormat } from './wire-format';

export const openaiResponses: WireFormat = {
  makeModel: (name, settings) => createOpenAI({ ...settings, apiKey: NO_KEY }).responses(name),
  replyOptions: () => ({
    responseFormat: { type: 'json', name: 'reply', schema: REPLY_JSON_SCHEMA },
    // Texts of a room are stored in our database only; by default OpenAI stores every request.
    providerOptions: { openai: { store: false, strictJsonSchema: true } },
  }),
  keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
  readEnvelope(json) {
    if (!Array.isArray(json.output)) return null;
    // Commentary is not a part of the answer. If a model answers twice, the later answer counts: two JSON objects in a
    // row would be read as plain text.
    const messages = asObjects(json.output).filter((item) => item.type === 'message' && item.phase !== 'commentary');
    const contents = messages.map((message) => readContent(message.content));
    const text = contents.map((content) => content.text).findLast((content) => content.trim() !== '') ?? '';
    const status = readText(json.status);
    const isIncomplete = status === 'incomplete';
    const usage = asObject(json.usage);
    return {
      kind: 'answer',
      envelope: {
        text,
        finishReason: (isIncomplete ? readText(asObject(json.incomplete_details)?.reason) : null) ?? status,
        isIncomplete,
        hasRefusal: contents.some((content) => content.hasRefusal),
        // These counts already include tokens that were read from a cache and tokens of the reasoning.
        usage: { inputTokens: readCount(usage?.input_tokens), outputTokens: readCount(usage?.output_tokens) },
      },
    };
  },
};
