// The configuration of the MCP server over stdio. Errors name the variable and never contain its value.

import { z } from 'zod';

export interface McpConfig {
  /** The address of the API, without a trailing slash. */
  readonly url: string;
  readonly key: string;
}

const EXPECTED_URL = 'the http or https address of the API, without a query or a password';

const schema = z.object({
  DURABLE_ROOM_URL: z.string(EXPECTED_URL).transform((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : null;
    const isAllowed =
      url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash;
    if (isAllowed) return url.origin + url.pathname.replace(/\/+$/, '');
    context.addIssue({ code: 'custom', message: EXPECTED_URL });
    return z.NEVER;
  }),
  DURABLE_ROOM_KEY: z
    .string("an agent's, a person's or a service's key")
    .regex(/^[\x21-\x7e]{1,512}$/, 'a key without spaces or line breaks'),
});

/** @throws Error that names every variable that is missing or wrong */
export function readMcpConfig(env: Readonly<Record<string, string | undefined>>): McpConfig {
  const parsed = schema.safeParse(env);
  if (parsed.success) return { url: parsed.data.DURABLE_ROOM_URL, key: parsed.data.DURABLE_ROOM_KEY };
  const lines = parsed.error.issues.map((issue) => `  ${issue.path.join('.')}: expected ${issue.message}`);
  throw new Error(`The MCP server's configuration is not usable:\n${lines.join('\n')}`);
}
