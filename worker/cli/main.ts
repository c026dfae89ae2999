#!/usr/bin/env node
// The program `durable-room <command>`. The commands are in commands.ts; program.ts reads the arguments.

import { runProgram } from './program';

async function main(): Promise<void> {
  // Not process.exit(): stdout may still hold output, and the MCP server runs until its stdin ends.
  process.exitCode = await runProgram(process.argv.slice(2), process.env);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
