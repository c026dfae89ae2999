// MCP over Streamable HTTP at /mcp, without sessions: each request gets its own MCP server, which closes with the response.
// So no session can expire, outlive its key or be lost in a restart. The key is checked here and again by each route that a
// tool calls.

import type { Express, RequestHandler } from 'express';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { requireRole } from '../middleware/caller';
import { authenticate, callerOf } from '../middleware/authentication';
import { parseText, readBody } from '../middleware/json-body';
import { limitRequests } from '../middleware/rate-limit';
import { localsOf } from '../middleware/request-log';
import { refuseMethod } from '../middleware/route-handler';
import { Problem } from '../problems';
import type { ApiDeps } from '../route';
import { createInProcessTransports } from './in-process-transport';
import { createMcpServer } from './server';

/** Mounts /mcp, whose tools call the routes of the same application. /mcp has the same rate limit per key as the routes. */
export function mountMcp(app: Express, deps: ApiDeps, requestsPerMinute: number): void {
  app
    .route('/mcp')
    .all(refuseBrowsers, authenticate(deps.db), limitRequests(requestsPerMinute), assertCompany)
    .post(readBody, serve(deps, createInProcessTransports(app)))
    .all(refuseMethod('POST'));
}

function serve({ log }: ApiDeps, transportFor: ReturnType<typeof createInProcessTransports>): RequestHandler {
  return async (req, res) => {
    const message = parseText(req);
    if (message === undefined) throw new Problem('malformed_body', 'the body must be a JSON-RPC message');
    const { requestId } = localsOf(res);
    const apiTransport = transportFor({ authorization: req.get('authorization') ?? '', requestId });
    const server = createMcpServer(apiTransport, (error) =>
      log.error({ err: error, request: requestId }, 'a tool failed'),
    );
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    // After a disconnect the client gets no response, but the API still completes the tool's request.
    res.once('close', () => void server.close());
    await server.connect(transport);
    await transport.handleRequest(req, res, message);
  };
}

/** MCP clients are not browser pages. A request with an Origin header can be an attack, such as DNS rebinding. */
const refuseBrowsers: RequestHandler = (req, _res, next) => {
  if (req.get('origin') !== undefined) throw new Problem('not_allowed', 'browser pages may not call MCP');
  next();
};

/** Refuses the operator's key, which may not read rooms. */
const assertCompany: RequestHandler = (_req, res, next) => {
  requireRole('company', callerOf(res));
  next();
};
