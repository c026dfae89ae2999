// The console: web pages for people, at /console. Every page reads and writes rooms only through the API's own routes, with
// the person's key.

import type { Express, RequestHandler } from 'express';
import { createInProcessTransports } from '../mcp/in-process-transport';
import type { ApiDeps } from '../route';
import { allAssets } from './assets';
import { answerFailures, answerUnknownPage } from './failures';
import { CONSOLE, PATHS } from './paths';
import { mountHeldActions } from './pages/held-actions';
import { mountPosting } from './pages/posting';
import { mountRoom } from './pages/room';
import { mountRooms } from './pages/rooms';
import { mountRun } from './pages/run';
import { mountSignIn } from './pages/sign-in';
import { mountUsage } from './pages/usage';
import { signedIn, type ConsoleDeps } from './visit';

/** Allows only the console's own style sheet, script, images and connections; no inline code and no framing. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The path of an asset contains a hash of its content. */
const CACHE_FOR_EVER = 'public, max-age=31536000, immutable';

export function mountConsole(app: Express, deps: ApiDeps): void {
  const { db, secretBox, log, temporalUi = null } = deps;
  const consoleDeps: ConsoleDeps = { db, secretBox, log, temporalUi, transportFor: createInProcessTransports(app) };

  app.use(CONSOLE, (_req, res, next) => {
    // Browsers send the real origin of a form only with a referrer policy that allows it.
    res.set({ 'Content-Security-Policy': CONTENT_SECURITY_POLICY, 'Referrer-Policy': 'same-origin' });
    next();
  });
  for (const { path, type, bytes } of allAssets()) {
    app.get(path, (_req, res) => void res.set('Cache-Control', CACHE_FOR_EVER).type(type).send(bytes));
  }
  app.get(CONSOLE, (_req, res) => res.redirect(303, PATHS.rooms));
  app.get(`${CONSOLE}/`, (_req, res) => res.redirect(303, PATHS.rooms));
  mountSignIn(app, consoleDeps);
  mountRooms(app, consoleDeps);
  mountRoom(app, consoleDeps);
  mountPosting(app, consoleDeps);
  mountHeldActions(app, consoleDeps);
  mountRun(app, consoleDeps);
  mountUsage(app, consoleDeps);

  app.get(
    `${PATHS.rooms}/:room/news`,
    asRoute(consoleDeps, ({ room }) => `/v1/rooms/${room}/events`),
  );
  app.get(
    PATHS.news,
    asRoute(consoleDeps, () => '/v1/feed'),
  );
  app.get(
    `${PATHS.rooms}/:room/files/:file`,
    asRoute(consoleDeps, ({ room, file }) => `/v1/rooms/${room}/files/${file}/content`),
  );

  app.use(CONSOLE, answerUnknownPage);
  app.use(CONSOLE, answerFailures(consoleDeps));
}

/**
 * Forwards a request to a route of the API with the person's key, for event streams and downloads. The route makes all its
 * usual checks.
 */
function asRoute(consoleDeps: ConsoleDeps, pathOf: (ids: Record<string, string>) => string): RequestHandler {
  return async (req, _res, next) => {
    const user = await signedIn(consoleDeps, req);
    const ids = Object.entries(req.params).map(([name, id]) => [name, encodeURIComponent(String(id))]);
    const query = req.url.indexOf('?');
    req.url = pathOf(Object.fromEntries(ids)) + (query < 0 ? '' : req.url.slice(query));
    req.headers.authorization = `Bearer ${user.key}`;
    next();
  };
}
