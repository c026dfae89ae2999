// What every page of the console has: its head, the way around, and the few parts that many pages show. JSX escapes every
// text and attribute; nothing here or on a page writes markup out of a string.

import type { Child } from 'hono/jsx';
import { assetPath } from './assets';
import { PATHS } from './paths';
import type { ShownProblem } from './routes-client';
import type { SignedIn } from './session';

/** A page, told to the frame around it. */
export interface Page {
  readonly title: string;
  readonly body: Child;
  /** Where the page hears that there is news, and loads its live parts anew. */
  readonly live?: string;
  readonly status?: number;
}

/** The whole document. `who` is null on pages that nobody is signed in for. */
export function renderPage({ title, body, live }: Page, who: SignedIn | null): string {
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
          Skip to the content
        </a>
        <header class="top">
          <a class="brand" href={PATHS.rooms}>
            Durable Room
          </a>
          {who && <Navigation who={who} />}
        </header>
        <main id="main" data-live={live}>
          <h1>{title}</h1>
          {body}
        </main>
        <footer>
          <p data-zone>Times are in UTC.</p>
          {live && (
            <p role="status" data-live-state>
              This page shows how things stood when it was loaded. Reload it to see what is new.
            </p>
          )}
        </footer>
      </body>
    </html>
  );
  // oxlint-disable-next-line typescript/no-base-to-string -- an element's text is its markup
  return `<!doctype html>${document.toString()}`;
}

function Navigation({ who }: { who: SignedIn }) {
  return (
    <>
      <nav aria-label="Console">
        <a href={PATHS.rooms}>Rooms</a>
        <a href={PATHS.heldActions}>Held actions</a>
        <a href={PATHS.usage}>Usage</a>
      </nav>
      <form class="signed-in" method="post" action={PATHS.signOut}>
        <Csrf token={who.csrf} />
        <span>
          {who.person.name} ({who.person.role})
        </span>
        <button class="quiet">Sign out</button>
      </form>
    </>
  );
}

/** What every form sends back: the token of its session. */
export function Csrf({ token }: { token: string }) {
  return <input type="hidden" name="csrf" value={token} />;
}

/** The form's own name for the one write that it makes: sent twice, it writes once. */
export function Once({ name }: { name: string }) {
  return <input type="hidden" name="once" value={name} />;
}

/** A moment: in UTC here, and in the reader's zone where the script runs. */
export function Time({ at }: { at: string }) {
  return <time datetime={at}>{`${at.slice(0, 10)} ${at.slice(11, 19)} UTC`}</time>;
}

/** A word of a closed set, such as an ending or a state. Its colour only repeats what it says. */
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

/** What went wrong, in the API's words. */
export function ProblemBox({ problem }: { problem: Pick<ShownProblem, 'title' | 'detail' | 'pointer'> }) {
  return (
    <div class="box bad" role="alert">
      <strong>{problem.title}.</strong> {problem.detail}
      {problem.pointer !== undefined && problem.pointer !== '' && ` (${problem.pointer.slice(1)})`}
    </div>
  );
}

/** Said where a list has nothing in it. */
export function Empty({ children }: { children: Child }) {
  return <p class="empty">{children}</p>;
}

/** A table that scrolls within itself where the screen is narrow, also by keyboard. */
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
