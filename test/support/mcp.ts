// Connects the official MCP client to the API of a test, over HTTP or stdio.

import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import type { JsonSchemaType, JsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/types.js';
import { PROBLEM_META } from '../../api/mcp/server';
import { expectStatus, type Json, type RoomCompany, type TestApi } from './api';
import { COMPILED } from './compiled';

const CLI = join(COMPILED, 'worker', 'cli', 'main.js');

export type TransportKind = 'http' | 'stdio';

export interface CallResult {
  /** Null if the call failed. */
  readonly data: Json;
  /** Null if the call succeeded. */
  readonly problem: Json;
  readonly text: string;
}

export interface McpUser {
  readonly client: Client;
  readonly transport: Transport;
  call(tool: string, args?: Record<string, unknown>): Promise<CallResult>;
}

const users = new Set<McpUser>();

export function transportTo(
  url: string,
  token: string,
  kind: TransportKind,
  fetch?: typeof globalThis.fetch,
): Transport {
  switch (kind) {
    case 'http': {
      const requestInit = { headers: { authorization: `Bearer ${token}` } };
      const options = { requestInit, ...(fetch && { fetch }) };
      return new StreamableHTTPClientTransport(new URL('/mcp', url), options);
    }
    case 'stdio':
      return new StdioClientTransport({
        command: process.execPath,
        args: [CLI, 'mcp'],
        env: { DURABLE_ROOM_URL: url, DURABLE_ROOM_KEY: token },
        stderr: 'ignore',
      });
  }
}

const ajv = new AjvJsonSchemaValidator();
const compiled = new Map<string, JsonSchemaValidator<unknown>>();

/** Compiles each validator once for all clients; compiling is the slowest part of connecting a client. */
const jsonSchemaValidator = {
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    const text = JSON.stringify(schema);
    const validator = compiled.get(text) ?? ajv.getValidator<unknown>(schema);
    compiled.set(text, validator);
    return validator as JsonSchemaValidator<T>;
  },
};

/** A connected client. It has the schemas of all tools and validates every result. */
export async function connectMcp(transport: Transport): Promise<McpUser> {
  const client = new Client({ name: 'test', version: '1' }, { jsonSchemaValidator });
  await client.connect(transport);
  await client.listTools();
  const user: McpUser = {
    client,
    transport,
    async call(tool, args = {}) {
      const result = await client.callTool({ name: tool, arguments: args });
      const [content] = result.content as { type: string; text: string }[];
      const text = content?.text ?? '';
      if (result.isError !== true) {
        const data = result.structuredContent as Json;
        expect(JSON.parse(text)).toEqual(data);
        return { data, problem: null, text };
      }
      const problem = result._meta?.[PROBLEM_META];
      expect(result.structuredContent).toBeUndefined();
      expect(JSON.parse(text)).toEqual(problem);
      return { data: null, problem, text };
    },
  };
  users.add(user);
  return user;
}

/** Closes every client that `connectMcp` made. */
export async function closeMcpUsers(): Promise<void> {
  for (const { client } of users) await client.close();
  users.clear();
}

/** Creates a key of a company. */
export async function keyOf(company: RoomCompany, body: object): Promise<{ id: string; token: string }> {
  return expectStatus(201, company.admin.post('/v1/keys', { name: 'MCP', ...body }));
}

export async function agentKeyOf(company: RoomCompany): Promise<string> {
  return (await keyOf(company, { kind: 'agent', agent: company.agentId })).token;
}

/** A client with the key of a company's agent. */
export async function agentUser(api: TestApi, company: RoomCompany, kind: TransportKind): Promise<McpUser> {
  return connectMcp(transportTo(api.url, await agentKeyOf(company), kind));
}

/** A client with the key of a member of a company. */
export async function memberUser(api: TestApi, company: RoomCompany, kind: TransportKind): Promise<McpUser> {
  const { token } = await keyOf(company, { kind: 'person', role: 'member' });
  return connectMcp(transportTo(api.url, token, kind));
}
