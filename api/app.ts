// The whole door as one Express application, which listens to nothing by itself. `main.ts` builds what it needs.

import express, { type Express } from 'express';
import helmet from 'helmet';
import { assertReadablePath } from './input-checks';
import { answerProblems, answerUnknownRoute } from './middleware/problem-answers';
import { authenticate } from './middleware/authentication';
import { logRequests } from './middleware/request-log';
import { reportRequests } from './middleware/request-reports';
import { traceRequests } from './middleware/request-spans';
import { limitRequests } from './middleware/rate-limit';
import { mountMcp } from './mcp/http';
import { mountRoutes } from './mounted-routes';
import type { ApiDeps, Route } from './route';
import { mountDocument } from './routes/document';
import { agentRoutes } from './routes/agents';
import { auditRoutes } from './routes/audit';
import { companyRoutes } from './routes/companies';
import { eventRoutes } from './routes/events';
import { feedRoutes } from './routes/feed';
import { fileRoutes } from './routes/files';
import { mountHealth } from './routes/health';
import { heldActionRoutes } from './routes/held-actions';
import { inboxRoutes } from './routes/inbox';
import { keyRoutes } from './routes/keys';
import { modelKeyRoutes } from './routes/model-keys';
import { redactionRoutes } from './routes/redactions';
import { roomContentRoutes } from './routes/room-contents';
import { searchRoutes } from './routes/search';
import { roomRoutes } from './routes/rooms';
import { rosterRoutes } from './routes/roster';
import { stoppingRoutes } from './routes/stopping';
import { timelineRoutes } from './routes/timeline';
import { usageRoutes } from './routes/usage';
import { ledgerRoutes } from './routes/wakes-and-runs';
import { createStreams } from './streams';

export type { ApiDeps } from './route';

/** Every route under /v1. */
export function allRoutes(deps: ApiDeps): readonly Route[] {
  return [
    ...companyRoutes,
    ...keyRoutes,
    ...modelKeyRoutes(deps),
    ...agentRoutes,
    ...roomRoutes,
    ...rosterRoutes,
    ...eventRoutes,
    ...feedRoutes,
    ...roomContentRoutes,
    ...inboxRoutes,
    ...fileRoutes,
    ...searchRoutes(deps),
    ...redactionRoutes,
    ...ledgerRoutes(deps),
    ...heldActionRoutes,
    ...stoppingRoutes(deps),
    ...timelineRoutes(deps),
    ...usageRoutes(deps),
    ...auditRoutes,
  ];
}

/** What a key may ask for where nothing else is configured. */
export const REQUESTS_PER_MINUTE = 600;

export function createApp(deps: ApiDeps): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('case sensitive routing');
  app.enable('strict routing');
  // Queries are read by `readQuery`, which refuses what the parsers repair.
  app.set('query parser', false);

  app.use(logRequests(deps.log));
  if (deps.onRequest) app.use(reportRequests(deps.onRequest));
  if (deps.tracing) app.use(traceRequests());
  app.use(helmet());
  app.use((req, _res, next) => {
    assertReadablePath(req.path);
    next();
  });
  const routes = allRoutes(deps);
  mountHealth(app, deps);
  mountDocument(app, routes);
  const requestsPerMinute = deps.requestsPerMinute ?? REQUESTS_PER_MINUTE;
  mountMcp(app, deps, requestsPerMinute);
  app.use('/v1', authenticate(deps.db), limitRequests(requestsPerMinute));
  mountRoutes(app, deps, deps.streams ?? createStreams(deps), routes);
  app.use(answerUnknownRoute);
  app.use(answerProblems(deps.log));
  return app;
}
