// The console's only script. It does two things, without which every page still works: it shows times in the reader's zone,
// and it loads the live parts of a page anew when the room's feed says that there is news. It makes no markup: what it puts
// on the page is what the server rendered.

const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** Times as the reader's clock has them. */
function localise(root) {
  for (const time of root.querySelectorAll('time[datetime]')) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = time.dateTime;
    time.textContent = when.format(at);
  }
}

localise(document);
const zone = document.querySelector('[data-zone]');
if (zone) zone.textContent = `Times are in your zone, ${when.resolvedOptions().timeZone}.`;

/** At most this often: a busy room does not make its readers ask without pause. */
const REFRESH_MS = 2_000;

/** Puts the children of one live part in the place of another's. What did not change is left alone, so that a screen reader
 * reads only what is new. */
function renew(old, fresh) {
  const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  const children = [...fresh.children].map((child, i) => {
    const before = known.get(child.id) ?? old.children[i];
    return before?.isEqualNode(child) ? before : document.adoptNode(child);
  });
  if (children.length === old.children.length && children.every((child, i) => child === old.children[i])) return;
  for (const child of Array.from(old.children)) if (!children.includes(child)) child.remove();
  children.forEach((child, i) => {
    if (old.children[i] !== child) old.insertBefore(child, old.children[i] ?? null);
  });
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
  if (!answer.ok || answer.redirected) return false;
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  localise(page);
  for (const part of document.querySelectorAll('[data-live-part]')) {
    const fresh = page.getElementById(part.id);
    // Where the reader is, nothing moves.
    if (fresh && !part.contains(document.activeElement)) renew(part, fresh);
  }
  return true;
}

const source = document.querySelector('[data-live]')?.dataset.live;
if (source) {
  const state = document.querySelector('[data-live-state]');
  const say = (text) => {
    if (state && state.textContent !== text) state.textContent = text;
  };
  const events = new EventSource(source);
  let due;
  let last = 0;
  const news = () => {
    const wait = Math.max(REFRESH_MS / 8, last + REFRESH_MS - Date.now());
    due ??= setTimeout(() => {
      due = undefined;
      last = Date.now();
      refresh().then(
        (loaded) => loaded || say('What is new could not be loaded. Reload the page to see it.'),
        () => say('What is new could not be loaded. Reload the page to see it.'),
      );
    }, wait);
  };
  events.addEventListener('open', () => say('Live: what is new appears by itself.'));
  events.addEventListener('message', news);
  events.addEventListener('resync', news);
  events.addEventListener('error', () =>
    say(
      events.readyState === EventSource.CLOSED
        ? 'Not live any more. Reload the page to see what is new.'
        : 'The connection was lost. Trying again…',
    ),
  );
}
