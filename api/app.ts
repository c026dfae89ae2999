// The whole HTTP API as one Express application. It does not listen: `main.ts` builds its dependencies and the server.

import express, { type Express } from 'express';
import helmet from 'helmet';
import { requireReadablePath } from './middleware/input-checks';
import { answerProblems, answerUnknownRoute } from './middleware/error-handler';
import { authenticate } from './middleware/authentication';
import { logRequests } from './middleware/request-log';
import { reportRequests } from './middleware/request-reports';
import { traceRequests } from './middleware/request-spans';
import { limitRequests } from './middleware/rate-limit';
import { mountConsole } from './console/mount';
import { mountMcp } from './mcp/http';
import { mountRoutes } from './middleware/route-handler';
import type { ApiDeps, Route } from './route';
import { mountDocs } from './routes/api-docs';
import { agentRoutes } from './routes/agents';
import { askAgainRoutes } from './routes/ask-again';
import { auditRoutes } from './routes/audit';
import { companyRoutes } from './routes/companies';
import { eventRoutes } from './routes/events';
import { fileRoutes } from './routes/files';
import { mountHealth } from './routes/health';
import { heldActionRoutes } from './routes/held-actions';
import { inboxRoutes } from './routes/inbox';
import { invitationRoutes } from './routes/invitations';
import { keyRoutes } from './routes/keys';
import { memberRoutes } from './routes/members';
import { memoryRoutes } from './routes/memory';
import { messageRoutes } from './routes/messages';
import { modelKeyRoutes } from './routes/model-keys';
import { redactionRoutes } from './routes/redactions';
import { passageRoutes } from './routes/passages';
import { roomRoutes } from './routes/rooms';
import { rosterRoutes } from './routes/roster';
import { runRoutes } from './routes/runs';
import { streamRoutes } from './routes/stream';
import { taskRoutes } from './routes/tasks';
import { usageRoutes } from './routes/usage';
import { wakeRoutes } from './routes/wakes';
import { createStreams } from './middleware/event-streams';

export type { ApiDeps } from './route';

/** Every route under /v1. */
export function allRoutes(deps: ApiDeps): readonly Route[] {
  return [
    ...companyRoutes,
    ...keyRoutes,
    ...modelKeyRoutes(deps),
    ...agentRoutes,
    ...roomRoutes,
    ...invitationRoutes,
    ...memberRoutes,
    ...rosterRoutes,
    ...eventRoutes,
    ...streamRoutes,
    ...messageRoutes,
    ...taskRoutes,
    ...memoryRoutes(deps),
    ...inboxRoutes,
    ...fileRoutes,
    ...passageRoutes(deps),
    ...redactionRoutes,
    ...wakeRoutes,
    ...runRoutes(deps),
    ...askAgainRoutes,
    ...heldActionRoutes,
    ...usageRoutes(deps),
    ...auditRoutes,
  ];
}

/** The default rate limit of one key. */
export const REQUESTS_PER_MINUTE = 600;

export function createApp(deps: ApiDeps): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('case sensitive routing');
  app.enable('strict routing');
  // `readQuery` reads the query: it refuses malformed input that Express's parsers would repair.
  app.set('query parser', false);

  app.use(logRequests(deps.log));
  if (deps.onRequest) app.use(reportRequests(deps.onRequest));
  if (deps.tracing) app.use(traceRequests());
  app.use(helmet());
  app.use((req, _res, next) => {
    requireReadablePath(req.path);
    next();
  });
  const routes = allRoutes(deps);
  mountHealth(app, deps);
  mountDocs(app, routes);
  const requestsPerMinute = deps.requestsPerMinute ?? REQUESTS_PER_MINUTE;
  mountMcp(app, deps, requestsPerMinute);
  mountConsole(app, deps);
  app.use('/v1', authenticate(deps.db), limitRequests(requestsPerMinute));
  mountRoutes(app, deps, deps.streams ?? createStreams(deps), routes);
  app.use(answerUnknownRoute);
  app.use(answerProblems(deps.log));
  return app;
}
