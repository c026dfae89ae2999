// Anthropic's Messages format: a list of content blocks, of which the text blocks are the answer.

import { createAnthropic } from '@ai-sdk/anthropic';
import { getModelCapabilities } from '@ai-sdk/anthropic/internal';

import { asObject, readContent, readCount, readText, type Json } from './body';
import { REPLY_JSON_SCHEMA } from './reply';
import { NO_KEY, type WireFormat } from './wire-format';

/**
 * This format requires a limit. It is more than the longest reply that we accept needs, and about as much as a model
 * can write before its request times out.
 */
const OUTPUT_TOKENS_LIMIT = 16_384;

export const anthropicMessages: WireFormat = {
  makeModel: (name, settings) => createAnthropic({ ...settings, apiKey: NO_KEY })(name),
  replyOptions(name) {
    const { maxOutputTokens, supportsStructuredOutput } = getModelCapabilities(name);
    return {
      maxOutputTokens: Math.min(OUTPUT_TOKENS_LIMIT, maxOutputTokens),
      // An older model gets the format in the system prompt only. The SDK would force it to call a tool, and a model
      // that must call a tool cannot answer in plain text or decline.
      ...(supportsStructuredOutput
        ? {
            responseFormat: { type: 'json', schema: REPLY_JSON_SCHEMA },
            providerOptions: { anthropic: { structuredOutputMode: 'outputFormat' } },
          }
        : {}),
    };
  },
  keyHeader: (key) => ({ 'x-api-key': key }),
  readEnvelope(json) {
    if (!Array.isArray(json.content) && typeof json.content !== 'string') return null;
    const { text, hasRefusal } = readContent(json.content);
    const usage = asObject(json.usage);
    return {
      kind: 'answer',
      envelope: {
        text,
        finishReason: readText(json.stop_reason),
        isIncomplete: false,
        hasRefusal,
        usage: { inputTokens: countInput(usage), outputTokens: readCount(usage?.output_tokens) },
      },
    };
  },
};

/** `input_tokens` excludes the tokens that were written to a cache or read from it, which the model also received. */
function countInput(usage: Json | null): number | null {
  const parts = [usage?.input_tokens, usage?.cache_creation_input_tokens ?? 0, usage?.cache_read_input_tokens ?? 0];
  const counts = parts.map(readCount);
  return counts.includes(null) ? null : readCount(counts.reduce<number>((sum, count) => sum + (count ?? 0), 0));
}
