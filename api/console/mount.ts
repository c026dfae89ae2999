// The console: a few pages for people, at /console. Every page is made of what the API's own routes answer to the person's
// key; nothing here reads or writes a room in any other way.

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

/** Nothing but our own style sheet, script, pictures and connections; no inline code, no frame around us. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The name in the address says what is in it. */
const KEPT_FOR_EVER = 'public, max-age=31536000, immutable';

export function mountConsole(app: Express, deps: ApiDeps): void {
  const { db, secretBox, log, temporalUi = null } = deps;
  const visits: ConsoleDeps = { db, secretBox, log, temporalUi, transportFor: createInProcessTransports(app) };

  app.use(CONSOLE, (_req, res, next) => {
    // The origin of a form is only told to a site that its pages may name.
    res.set({ 'Content-Security-Policy': POLICY, 'Referrer-Policy': 'same-origin' });
    next();
  });
  for (const { path, type, bytes } of allAssets()) {
    app.get(path, (_req, res) => void res.set('Cache-Control', KEPT_FOR_EVER).type(type).send(bytes));
  }
  app.get(CONSOLE, (_req, res) => res.redirect(303, PATHS.rooms));
  app.get(`${CONSOLE}/`, (_req, res) => res.redirect(303, PATHS.rooms));
  mountSignIn(app, visits);
  mountRooms(app, visits);
  mountRoom(app, visits);
  mountPosting(app, visits);
  mountHeldActions(app, visits);
  mountRun(app, visits);
  mountUsage(app, visits);

  app.get(
    `${PATHS.rooms}/:room/news`,
    asRoute(visits, ({ room }) => `/v1/rooms/${room}/events`),
  );
  app.get(
    PATHS.news,
    asRoute(visits, () => '/v1/feed'),
  );
  app.get(
    `${PATHS.rooms}/:room/files/:file`,
    asRoute(visits, ({ room, file }) => `/v1/rooms/${room}/files/${file}/content`),
  );

  app.use(CONSOLE, answerUnknownPage);
  app.use(CONSOLE, answerFailures(visits));
}

/**
 * Hands a request on to a route of the API as if it had come with the person's key: streams and downloads, which a page
 * can't make of an answer. The route asks everything that it asks of anyone.
 */
function asRoute(visits: ConsoleDeps, pathOf: (ids: Record<string, string>) => string): RequestHandler {
  return async (req, _res, next) => {
    const who = await signedIn(visits, req);
    const ids = Object.entries(req.params).map(([name, id]) => [name, encodeURIComponent(String(id))]);
    const query = req.url.indexOf('?');
    req.url = pathOf(Object.fromEntries(ids)) + (query < 0 ? '' : req.url.slice(query));
    req.headers.authorization = `Bearer ${who.key}`;
    next();
  };
}
