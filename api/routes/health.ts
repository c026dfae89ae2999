// Health checks for load balancers: whether this process is alive, and whether it can serve requests. They need no key.

import type { Express } from 'express';
import { findMissingMigrations } from '../../prisma/store/reports/readiness';
import { inStatement } from '../../prisma/store/db/sql-errors';
import { Problem } from '../problems';
import { refuseMethod } from '../middleware/route-handler';
import type { ApiDeps } from '../route';

export function mountHealth(app: Express, { db }: ApiDeps): void {
  app
    .route('/healthz')
    .get((_req, res) => void res.json({ status: 'ok' }))
    .all(refuseMethod('GET, HEAD'));
  app
    .route('/readyz')
    .get(async (_req, res) => {
      if ((await inStatement(findMissingMigrations(db))) > 0) {
        throw new Problem('unavailable', 'the database lacks migrations', { headers: { 'Retry-After': '5' } });
      }
      res.json({ status: 'ready' });
    })
    .all(refuseMethod('GET, HEAD'));
}
