// MCP over Streamable HTTP at /mcp. Stateless: every request is one exchange, served by a server of its own that is gone
// with the answer. So there is no session to run out, to outlive its key or to be lost with a process; a key is asked for
// at every request, here and again at the routes that a tool calls.

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
import { inProcessDoors } from './in-process-door';
import { createMcpServer } from './server';

/** Mounts /mcp, whose tools call the routes of the same application. A key may ask it as often as it may ask those. */
export function mountMcp(app: Express, deps: ApiDeps, requestsPerMinute: number): void {
  app
    .route('/mcp')
    .all(refuseBrowsers, authenticate(deps.db), limitRequests(requestsPerMinute), assertCompany)
    .post(readBody, serve(deps, inProcessDoors(app)))
    .all(refuseMethod('POST'));
}

function serve({ log }: ApiDeps, doorOf: ReturnType<typeof inProcessDoors>): RequestHandler {
  return async (req, res) => {
    const message = parseText(req);
    if (message === undefined) throw new Problem('malformed_body', 'a JSON-RPC message is needed as the body');
    const { requestId } = localsOf(res);
    const door = doorOf({ authorization: req.get('authorization') ?? '', requestId });
    const server = createMcpServer(door, (error) => log.error({ err: error, request: requestId }, 'a tool failed'));
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    // A client that is gone gets no answer; what its call does at the door is done all the same.
    res.once('close', () => void server.close());
    await server.connect(transport);
    await transport.handleRequest(req, res, message);
  };
}

/** No page in a browser is a client of ours: one that sends its origin was led here, by a rebound name or otherwise. */
const refuseBrowsers: RequestHandler = (req, _res, next) => {
  if (req.get('origin') !== undefined) throw new Problem('not_allowed', 'MCP is not for pages in a browser');
  next();
};

/** The operator reads no room. */
const assertCompany: RequestHandler = (_req, res, next) => {
  requireRole('company', callerOf(res));
  next();
};
