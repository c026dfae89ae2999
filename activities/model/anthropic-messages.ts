// Anthropic's Messages format: a list of content blocks, of which the text blocks are the answer.

import { createAnthropic } from '@ai-sdk/anthropic';
import { getModelCapabilities } from '@ai-sdk/anthropic/internal';

import { asObject, readContent, readCount, readText, type Json } from './body';
import { REPLY_JSON_SCHEMA } from './reply';
import { NO_KEY, type WireFormat } from './wire-format';

/**
 * This format makes the caller name a limit. More than the longest reply that we take needs, and about what a model can
 * write before its request times out.
 */
const OUTPUT_TOKENS_LIMIT = 16_384;

export const anthropicMessages: WireFormat = {
  makeModel: (name, settings) => createAnthropic({ ...settings, apiKey: NO_KEY })(name),
  askFor(name) {
    const { maxOutputTokens, supportsStructuredOutput } = getModelCapabilities(name);
    return {
      maxOutputTokens: Math.min(OUTPUT_TOKENS_LIMIT, maxOutputTokens),
      // An older model has only the words of the system prompt to go by. The SDK would make it call a tool instead, and
      // a model that must call one can no longer answer in plain text, or decline.
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
    const finishReason = readText(json.stop_reason);
    const usage = asObject(json.usage);
    return {
      kind: 'answer',
      envelope: {
        mendedBody: JSON.stringify({
          type: 'message',
          content: [{ type: 'text', text }],
          stop_reason: finishReason,
          usage: { input_tokens: 0, output_tokens: 0 },
        }),
        finishReason,
        isIncomplete: false,
        hasRefusal,
        usage: { inputTokens: countInput(usage), outputTokens: readCount(usage?.output_tokens) },
      },
    };
  },
};

/** Here `input_tokens` leaves out what was written to a cache or read from one; the model was given all of it. */
function countInput(usage: Json | null): number | null {
  const parts = [usage?.input_tokens, usage?.cache_creation_input_tokens ?? 0, usage?.cache_read_input_tokens ?? 0];
  const counts = parts.map(readCount);
  return counts.includes(null) ? null : readCount(counts.reduce<number>((sum, count) => sum + (count ?? 0), 0));
}
