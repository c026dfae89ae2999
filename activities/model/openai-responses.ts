// OpenAI's Responses format: a list of output items, of which the messages are the answer.

import { createOpenAI } from '@ai-sdk/openai';

import { asObject, asObjects, readContent, readCount, readText } from './body';
import { REPLY_JSON_SCHEMA } from './reply';
import { NO_KEY, type WireFormat } from './wire-format';

export const openaiResponses: WireFormat = {
  makeModel: (name, settings) => createOpenAI({ ...settings, apiKey: NO_KEY }).responses(name),
  askFor: () => ({
    responseFormat: { type: 'json', name: 'reply', schema: REPLY_JSON_SCHEMA },
    // The room is kept here and nowhere else; by default OpenAI would keep what it was sent.
    providerOptions: { openai: { store: false, strictJsonSchema: true } },
  }),
  keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
  readEnvelope(json) {
    if (!Array.isArray(json.output)) return null;
    // Comments on the way to the answer are none of it. Where a model answers twice, the later one is its answer:
    // two JSON objects in a row would read as plain text.
    const messages = asObjects(json.output).filter((item) => item.type === 'message' && item.phase !== 'commentary');
    const contents = messages.map((message) => readContent(message.content));
    const text = contents.map((content) => content.text).findLast((said) => said.trim() !== '') ?? '';
    const status = readText(json.status);
    const isIncomplete = status === 'incomplete';
    const usage = asObject(json.usage);
    return {
      kind: 'answer',
      envelope: {
        mendedBody: JSON.stringify({
          output: [
            { type: 'message', role: 'assistant', id: '-', content: [{ type: 'output_text', text, annotations: [] }] },
          ],
        }),
        finishReason: (isIncomplete ? readText(asObject(json.incomplete_details)?.reason) : null) ?? status,
        isIncomplete,
        hasRefusal: contents.some((content) => content.hasRefusal),
        // Tokens read from a cache and tokens spent on reasoning are counted in these already.
        usage: { inputTokens: readCount(usage?.input_tokens), outputTokens: readCount(usage?.output_tokens) },
      },
    };
  },
};
