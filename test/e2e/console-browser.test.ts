// The console in a real Chromium: accessibility of every page, keyboard, narrow screens, live updates, and use without script.
// On a machine without Chromium the tests are skipped, with a warning.

import { readFileSync } from 'node:fs';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { findChromium, launchChromium } from '../support/chromium';
import { openConsole, type TestConsole } from '../support/console';
import { createConsoleStory, type Story } from '../support/console-story';

const CHROMIUM = findChromium();
const inChromium = CHROMIUM === null ? test.skip : test;
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 340, height: 740 };

let app: TestConsole;
let browser: Browser;
let story: Story;

beforeAll(async () => {
  if (CHROMIUM === null) {
    console.warn('No Chromium found: the browser tests of the console are skipped. Set CHROMIUM_PATH to its path.');
    return;
  }
  app = await openConsole();
  story = await createConsoleStory(app);
  browser = await launchChromium(CHROMIUM);
});
afterAll(async () => {
  await browser?.close();
  await app?.close();
});

/** A browser page with a signed-in person. `done` fails the test if the browser reported errors. */
async function signedInPage(
  options: BrowserContextOptions = {},
): Promise<{ page: Page; context: BrowserContext; done(): Promise<void> }> {
  const context = await browser.newContext({ viewport: WIDE, ...options });
  const page = await context.newPage();
  const browserErrors: string[] = [];
  page.on('console', (message) => {
    // The browser logs each 404 answer as an error; some pages are 404 on purpose.
    if (message.type() === 'error' && !message.text().includes('Failed to load resource'))
      browserErrors.push(message.text());
  });
  page.on('pageerror', (error) => browserErrors.push(error.message));
  await page.goto(`${app.url}/console`);
  await page.getByLabel('Your key').fill(story.token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL('**/console/rooms');
  const done = async (): Promise<void> => {
    await context.close();
    expect(browserErrors).toEqual([]);
  };
  return { page, context, done };
}

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

async function findViolations(page: Page): Promise<string[]> {
  // Evaluated by the debugger, because the page's security policy blocks other scripts.
  const found = await page.evaluate<Violation[]>(`${AXE}; axe.run(document).then((result) => result.violations)`);
  return found.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary ?? ''}`));
}

describe.each(['light', 'dark'] as const)('axe finds no violation in %s colors', (colorScheme) => {
  describe.each([
    ['wide', WIDE],
    ['narrow', NARROW],
  ])('on a %s screen', (_, viewport) => {
    inChromium('on any page, and no page scrolls horizontally', async () => {
      const { page, done } = await signedInPage({ colorScheme, viewport });
      for (const [name, path] of Object.entries(story.pages)) {
        await page.goto(app.url + path);
        expect([name, await findViolations(page)]).toEqual([name, []]);
        const overflow = await page.evaluate(
          'document.documentElement.scrollWidth - document.documentElement.clientWidth',
        );
        expect([name, overflow]).toEqual([name, 0]);
      }
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Your key').waitFor();
      expect(await findViolations(page)).toEqual([]);
      await page.getByLabel('Your key').fill('dr_person_unknown');
      await page.getByRole('button', { name: 'Sign in' }).click();
      expect(await page.getByRole('alert').textContent()).toContain('unknown');
      expect(await findViolations(page)).toEqual([]);
      await done();
    });
  });
});

inChromium('new events appear without a reload of the page', async () => {
  const { page, done } = await signedInPage();
  await page.goto(app.url + story.pages['room']);
  await page.getByText('Live: the page updates automatically.').waitFor();
  await page.getByRole('textbox', { name: 'Message' }).fill('a draft of mine');
  const marked = page.locator('#events > li').first();
  await marked.evaluate((item) => item.setAttribute('data-kept', ''));
  await app.world.post('Fresh off the feed <b>!</b>');
  await page.getByText('Fresh off the feed <b>!</b>').waitFor();
  expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('a draft of mine');
  await done();
});

inChromium('times are in the reader’s time zone, and the page names the zone', async () => {
  const { page, done } = await signedInPage({ timezoneId: 'Asia/Kolkata', locale: 'en-GB' });
  await page.goto(app.url + story.pages['room']);
  expect(await page.locator('[data-zone]').textContent()).toMatch(
    /Times are in your time zone, Asia\/(Kolkata|Calcutta)\./,
  );
  const time = page.locator('#events time').first();
  const at = new Date((await time.getAttribute('datetime')) ?? '');
  const local = new Intl.DateTimeFormat('en-GB', {
    dateStyle: 'medium',
    timeStyle: 'medium',
    timeZone: 'Asia/Kolkata',
  });
  expect((await time.textContent())?.replace(/\s/g, ' ')).toBe(local.format(at).replace(/\s/g, ' '));
  await done();
});

inChromium('a person posts a message with the keyboard alone', async () => {
  const { page, done } = await signedInPage();
  await page.goto(app.url + story.pages['room']);
  await page.keyboard.press('Tab');
  expect(await page.evaluate('document.activeElement.textContent.trim()')).toBe('Skip to content');
  await page.keyboard.press('Enter');
  for (let i = 0; i < 200 && (await page.evaluate('document.activeElement.id')) !== 'text'; i += 1)
    await page.keyboard.press('Tab');
  await page.keyboard.type('@scribe by keyboard');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Preview' }).waitFor();
  expect(await page.locator('#addressed').textContent()).toContain('Scribe');
  for (let i = 0; i < 50; i += 1) {
    if ((await page.evaluate<string>('document.activeElement.textContent')).startsWith('Send to')) break;
    await page.keyboard.press('Tab');
  }
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/console\/rooms\/room_[^/]+#evt_/);
  await page.getByText('@scribe by keyboard').first().waitFor();
  await done();
});

inChromium('without script a person decides a held action', async () => {
  const { page, done } = await signedInPage({ javaScriptEnabled: false });
  await page.goto(app.url + story.pages['room']);
  await page.getByText('Times are in UTC.').waitFor();
  await page.getByRole('link', { name: 'Approvals' }).click();
  await page.getByRole('link', { name: 'send a task' }).first().click();
  await page.getByRole('link', { name: 'Decline…' }).click();
  expect(await page.locator('#effect').textContent()).toContain('The task is not sent');
  await page.getByRole('button', { name: 'Decline' }).click();
  expect(await page.locator('#notice').textContent()).toBe('Your decision is recorded: declined.');
  await done();
});
