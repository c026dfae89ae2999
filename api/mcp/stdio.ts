// The MCP server over stdio, for clients that start their servers as processes. It calls the API over HTTP with the key from
// its environment. Only protocol messages may go to stdout.

import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { readMcpConfig } from './config';
import { createHttpTransport } from './http-transport';
import { createMcpServer } from './server';

/** Connects the server to stdin and stdout. @throws Error that names each variable that is missing or invalid */
export async function startStdioServer(env: Parameters<typeof readMcpConfig>[0]): Promise<void> {
  const { url, key } = readMcpConfig(env);
  const server = createMcpServer(createHttpTransport(url, key), (error) => {
    console.error(error instanceof Error ? error.message : error);
  });
  await server.connect(new StdioServerTransport());
}
