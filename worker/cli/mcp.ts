// The command `mcp`. The only file of worker/ that uses code of api/: the stdio MCP server is a client of the API, and one
// program shall hold all commands. It is loaded only when the command runs, so no other process loads the API's code.

import type { RunCommand } from './commands';

/** Starts the MCP server on stdin and stdout. Resolves when it is connected; the process ends when stdin ends. */
export const runMcp: RunCommand = async ({ env }) => {
  const { startStdioServer } = require('../../api/mcp/stdio') as typeof import('../../api/mcp/stdio');
  await startStdioServer(env);
  return 0;
};
