// The whole door as one Express application, which listens to nothing by itself. `main.ts` builds what it needs.

import express, { type Express } from 'express';
import helmet from 'helmet';
import { assertReadablePath } from './input-checks';
import { answerProblems, answerUnknownRoute } from './middleware/problem-answers';
import { authenticate } from './middleware/authentication';
import { logRequests } from './middleware/request-log';
import { mountRoutes, type ApiDeps } from './route';
import { agentRoutes } from './routes/agents';
import { auditRoutes } from './routes/audit';
import { companyRoutes } from './routes/companies';
import { eventRoutes } from './routes/events';
import { mountHealth } from './routes/health';
import { heldActionRoutes } from './routes/held-actions';
import { keyRoutes } from './routes/keys';
import { modelKeyRoutes } from './routes/model-keys';
import { redactionRoutes } from './routes/redactions';
import { roomContentRoutes } from './routes/room-contents';
import { roomRoutes } from './routes/rooms';
import { rosterRoutes } from './routes/roster';
import { stoppingRoutes } from './routes/stopping';
import { usageRoutes } from './routes/usage';
import { ledgerRoutes } from './routes/wakes-and-runs';
import type { Route } from './route';

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
    ...roomContentRoutes,
    ...redactionRoutes,
    ...ledgerRoutes(deps),
    ...heldActionRoutes,
    ...stoppingRoutes(deps),
    ...usageRoutes(deps),
    ...auditRoutes,
  ];
}

export function createApp(deps: ApiDeps): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('case sensitive routing');
  app.enable('strict routing');
  // Queries are read by `readQuery`, which refuses what the parsers repair.
  app.set('query parser', false);

  app.use(logRequests(deps.log));
  app.use(helmet());
  app.use((req, _res, next) => {
    assertReadablePath(req.path);
    next();
  });
  mountHealth(app, deps);
  app.use('/v1', authenticate(deps.db));
  mountRoutes(app, deps, allRoutes(deps));
  app.use(answerUnknownRoute);
  app.use(answerProblems(deps.log));
  return app;
}
