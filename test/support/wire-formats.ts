// The wire formats on the provider's side: how the scripted model server writes answers and reads requests. Written from the
// documentation of the providers, not from the code under test.

import type { ModelProtocol } from '../../workflows/policy/model-endpoint';

export type WireFormat = ModelProtocol;

/** The fields of a chat-completions message that have a counterpart in the other formats. */
export interface ScriptedMessage {
  content?: string | null | readonly { type: string; text?: string; [field: string]: unknown }[];
  refusal?: string;
  reasoning_content?: string;
  tool_calls?: readonly object[];
}

interface ScriptedError {
  code: string | null;
  type: string;
  message: string;
}

interface Counts {
  input: number;
  output: number;
}

interface Words {
  /** The path of a request. */
  readonly path: string;
  readonly keyHeader: (key: string) => Readonly<Record<string, string>>;
  /** The names of the usual finish reasons in this format. */
  readonly finish: Readonly<Record<'stop' | 'length' | 'content_filter' | 'tool_calls', string>>;
  success(message: ScriptedMessage, finishReason: string | null, usage: unknown): object;
  error(error: ScriptedError): object;
}

export const WIRE_FORMATS: Readonly<Record<WireFormat, Words>> = {
  openai_compatible: {
    path: '/v1/chat/completions',
    keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
    finish: { stop: 'stop', length: 'length', content_filter: 'content_filter', tool_calls: 'tool_calls' },
    success: (message, finishReason, usage) => ({
      id: 'chatcmpl-scripted',
      object: 'chat.completion',
      created: 1_770_000_000,
      model: 'scripted',
      choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finishReason }],
      usage: isCounts(usage)
        ? { prompt_tokens: usage.input, completion_tokens: usage.output, total_tokens: usage.input + usage.output }
        : usage,
    }),
    error: ({ code, type, message }) => ({ error: { message, type, param: null, code } }),
  },
  openai: {
    path: '/v1/responses',
    keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
    finish: {
      stop: 'completed',
      length: 'max_output_tokens',
      content_filter: 'content_filter',
      tool_calls: 'completed',
    },
    success(message, finishReason, usage) {
      const reason = finishReason === null ? null : wordOf('openai', finishReason);
      const isIncomplete = finishReason === 'length' || finishReason === 'content_filter';
      return {
        id: 'resp_scripted',
        object: 'response',
        created_at: 1_770_000_000,
        model: 'scripted',
        status: isIncomplete ? 'incomplete' : reason,
        error: null,
        incomplete_details: isIncomplete ? { reason } : null,
        output: [
          ...reasoningOf(message).map((text) => ({
            type: 'reasoning',
            id: 'rs_1',
            summary: [{ type: 'summary_text', text }],
          })),
          ...(message.tool_calls ?? []).map(() => ({
            type: 'function_call',
            id: 'fc_1',
            call_id: 'call_1',
            name: 'f',
            arguments: '{}',
          })),
          {
            type: 'message',
            id: 'msg_1',
            role: 'assistant',
            status: 'completed',
            content: partsOf(message).map((part) =>
              part.type === 'text' ? { type: 'output_text', annotations: [], text: part.text } : part,
            ),
          },
        ],
        usage: isCounts(usage)
          ? {
              input_tokens: usage.input,
              input_tokens_details: { cached_tokens: 20 },
              output_tokens: usage.output,
              output_tokens_details: { reasoning_tokens: 10 },
              total_tokens: usage.input + usage.output,
            }
          : usage,
      };
    },
    error: ({ code, type, message }) => ({ error: { message, type, param: null, code } }),
  },
  anthropic: {
    path: '/v1/messages',
    keyHeader: (key) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
    finish: { stop: 'end_turn', length: 'max_tokens', content_filter: 'refusal', tool_calls: 'tool_use' },
    success: (message, finishReason, usage) => ({
      id: 'msg_scripted',
      type: 'message',
      role: 'assistant',
      model: 'scripted',
      content: [
        ...reasoningOf(message).map((thinking) => ({ type: 'thinking', thinking, signature: 'x' })),
        ...partsOf(message),
        ...(message.tool_calls ?? []).map(() => ({ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} })),
      ],
      stop_reason: finishReason === null ? null : wordOf('anthropic', finishReason),
      stop_sequence: null,
      usage: isCounts(usage)
        ? {
            input_tokens: usage.input - 20,
            cache_creation_input_tokens: 5,
            cache_read_input_tokens: 15,
            output_tokens: usage.output,
          }
        : usage,
    }),
    // This format has one field for the kind of an error; the others have a code and a type.
    error: ({ code, type, message }) => ({
      type: 'error',
      error: { type: code ?? type, message },
      request_id: 'req_scripted',
    }),
  },
};

export const ALL_FORMATS = Object.keys(WIRE_FORMATS) as WireFormat[];

/** The format of a request to this path; chat-completions for an unknown path. */
export function formatOfPath(path: string): WireFormat {
  return ALL_FORMATS.find((format) => path.endsWith(WIRE_FORMATS[format].path)) ?? 'openai_compatible';
}

/** The name of a usual finish reason in this format; any other value unchanged. */
export function wordOf(format: WireFormat, finishReason: string): string {
  const { finish } = WIRE_FORMATS[format];
  return Object.hasOwn(finish, finishReason) ? finish[finishReason as keyof typeof finish] : finishReason;
}

/** The texts of a request in this role, in any format. */
export function textsOf(body: unknown, role: 'system' | 'user'): string[] {
  const { messages, input, system } = (body ?? {}) as {
    messages?: { role: string; content: unknown }[];
    input?: { role: string; content: unknown }[];
    system?: unknown;
  };
  const all = [...(system === undefined ? [] : [{ role: 'system', content: system }]), ...(messages ?? input ?? [])];
  return all
    .filter((message) => message.role === role || (role === 'system' && message.role === 'developer'))
    .map(({ content }) => textOf(content));
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  const parts = Array.isArray(content) ? (content as { text?: string }[]) : [];
  return parts.map((part) => part.text ?? JSON.stringify(part)).join('\n');
}

function partsOf({ content, refusal }: ScriptedMessage): readonly { type: string; text?: string }[] {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  return refusal === undefined ? parts : [...parts, { type: 'refusal', refusal } as { type: string }];
}

function reasoningOf({ reasoning_content }: ScriptedMessage): readonly string[] {
  return reasoning_content === undefined ? [] : [reasoning_content];
}

function isCounts(usage: unknown): usage is Counts {
  return typeof usage === 'object' && usage !== null && 'input' in usage && 'output' in usage;
}
