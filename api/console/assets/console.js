// The console's only script; every page also works without it. It shows times in the reader's time zone, and it reloads the
// live parts of a page after an event of the feed. It adds only markup that the server rendered.

const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** Shows times in the reader's time zone. */
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
if (zone) zone.textContent = `Times are in your time zone, ${when.resolvedOptions().timeZone}.`;

/** The shortest time between two reloads, for busy rooms. */
const REFRESH_MS = 2_000;

/** Replaces the children of a live part. Unchanged elements stay, so that a screen reader reads only new ones. */
function updatePart(old, fresh) {
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
    // A part that contains the focus is not changed.
    if (fresh && !part.contains(document.activeElement)) updatePart(part, fresh);
  }
  return true;
}

const source = document.querySelector('[data-live]')?.dataset.live;
if (source) {
  const state = document.querySelector('[data-live-state]');
  const showState = (text) => {
    if (state && state.textContent !== text) state.textContent = text;
  };
  const events = new EventSource(source);
  let due;
  let last = 0;
  const scheduleRefresh = () => {
    const wait = Math.max(REFRESH_MS / 8, last + REFRESH_MS - Date.now());
    due ??= setTimeout(() => {
      due = undefined;
      last = Date.now();
      refresh().then(
        (loaded) => loaded || showState('The update could not be loaded. Reload the page.'),
        () => showState('The update could not be loaded. Reload the page.'),
      );
    }, wait);
  };
  events.addEventListener('open', () => showState('Live: the page updates automatically.'));
  events.addEventListener('message', scheduleRefresh);
  events.addEventListener('resync', scheduleRefresh);
  events.addEventListener('error', () =>
    showState(
      events.readyState === EventSource.CLOSED
        ? 'Live updates have stopped. Reload the page to see changes.'
        : 'Connection lost. Reconnecting…',
    ),
  );
}
