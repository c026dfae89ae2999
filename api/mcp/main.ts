// The MCP server as a process of its own, over stdio: for clients that start their servers. It talks to the API over HTTP
// with the key it was given, and ends with its stdin. Stdout is the protocol's alone.

import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { readMcpConfig } from './config';
import { createHttpTransport } from './http-transport';
import { createMcpServer } from './server';

async function main(): Promise<void> {
  const { url, key } = readMcpConfig(process.env);
  const server = createMcpServer(createHttpTransport(url, key), (error) => console.error(messageOf(error)));
  await server.connect(new StdioServerTransport());
}

function messageOf(error: unknown): unknown {
  return error instanceof Error ? error.message : error;
}

main().catch((error: unknown) => {
  console.error(messageOf(error));
  process.exitCode = 1;
});
