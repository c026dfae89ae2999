// The frame of every console page (head, navigation, footer) and components that several pages use. JSX escapes every text
// and attribute; no page writes markup from a string.

import type { Child } from 'hono/jsx';
import { assetPath } from './assets';
import { PATHS } from './paths';
import type { ShownProblem } from './routes-client';
import type { SignedIn } from './session';

/** The content of a page; `renderPage` adds the frame. */
export interface Page {
  readonly title: string;
  readonly body: Child;
  /** The path of the event stream. After each event the page reloads its live parts. */
  readonly live?: string;
  readonly status?: number;
}

/** The whole HTML document. `user` is null if no person is signed in. */
export function renderPage({ title, body, live }: Page, user: SignedIn | null): string {
  const document = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{`${title} · Durable Room`}</title>
        <link rel="stylesheet" href={assetPath('console.css')} />
        <link rel="icon" type="image/svg+xml" href={assetPath('icon.svg')} />
        <script type="module" src={assetPath('console.js')} />
      </head>
      <body>
        <a class="skip" href="#main">
          Skip to content
        </a>
        <header class="top">
          <a class="brand" href={PATHS.rooms}>
            Durable Room
          </a>
          {user && <Navigation user={user} />}
        </header>
        <main id="main" data-live={live}>
          <h1>{title}</h1>
          {body}
        </main>
        <footer>
          <p data-zone>Times are in UTC.</p>
          {live && (
            <p role="status" data-live-state>
              Live updates are off. Reload the page to see changes.
            </p>
          )}
        </footer>
      </body>
    </html>
  );
  // oxlint-disable-next-line typescript/no-base-to-string -- an element's text is its markup
  return `<!doctype html>${document.toString()}`;
}

function Navigation({ user }: { user: SignedIn }) {
  return (
    <>
      <nav aria-label="Console">
        <a href={PATHS.rooms}>Rooms</a>
        <a href={PATHS.heldActions}>Approvals</a>
        <a href={PATHS.usage}>Usage</a>
      </nav>
      <form class="signed-in" method="post" action={PATHS.signOut}>
        <Csrf token={user.csrf} />
        <span>
          {user.person.name} ({user.person.role})
        </span>
        <button class="quiet">Sign out</button>
      </form>
    </>
  );
}

/** The session's form token, which every form must send. */
export function Csrf({ token }: { token: string }) {
  return <input type="hidden" name="csrf" value={token} />;
}

/** The idempotency key of the form's write: if the form is sent twice, it writes once. */
export function Once({ name }: { name: string }) {
  return <input type="hidden" name="once" value={name} />;
}

/** A time in UTC. The script shows it in the reader's time zone. */
export function Time({ at }: { at: string }) {
  return <time datetime={at}>{`${at.slice(0, 10)} ${at.slice(11, 19)} UTC`}</time>;
}

/** A value of a closed set, such as an ending or a state. The colour adds no information. */
export function Word({ of }: { of: string }) {
  return <span class={`word ${toneOf(of)}`}>{of.replaceAll('_', ' ')}</span>;
}

const GOOD = new Set(['replied', 'done', 'accepted', 'approved', 'executed', 'ready', 'answered']);
const BAD = new Set(['failed', 'lost', 'timed_out', 'refused', 'rejected', 'unreadable', 'not_allowed', 'busy']);
const WAITING = new Set(['held', 'open', 'pending', 'in_progress', 'processing', 'in_flight', 'partial']);

function toneOf(word: string): 'good' | 'bad' | 'waiting' | 'plain' {
  if (GOOD.has(word)) return 'good';
  if (BAD.has(word)) return 'bad';
  return WAITING.has(word) ? 'waiting' : 'plain';
}

/** A problem of the API. */
export function ProblemBox({ problem }: { problem: Pick<ShownProblem, 'title' | 'detail' | 'pointer'> }) {
  return (
    <div class="box bad" role="alert">
      <strong>{problem.title}.</strong> {problem.detail}
      {problem.pointer !== undefined && problem.pointer !== '' && ` (${problem.pointer.slice(1)})`}
    </div>
  );
}

/** The text of an empty list. */
export function Empty({ children }: { children: Child }) {
  return <p class="empty">{children}</p>;
}

/** A table that scrolls horizontally on a narrow screen, also by keyboard. */
export function Table({ caption, head, children }: { caption: string; head: readonly string[]; children: Child }) {
  return (
    <div class="scroll" role="region" aria-label={caption} tabindex={0}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {head.map((name) => (
              <th scope="col">{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
