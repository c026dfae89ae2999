// Takes the screenshots of the console for the README: `npm run screenshots`. Needs a Chromium. It is not a test.

import { join } from 'node:path';
import { findChromium, launchChromium } from './chromium';
import { openConsole } from './console';
import { createConsoleStory } from './console-story';
import { PROJECT_ROOT } from '../../worker/local/project-root';

const FOLDER = join(PROJECT_ROOT, 'docs', 'images', 'console');

const PICTURES = [
  { name: 'room', colorScheme: 'light', viewport: { width: 1200, height: 900 } },
  { name: 'held-action', colorScheme: 'light', viewport: { width: 1000, height: 760 } },
  { name: 'run', colorScheme: 'dark', viewport: { width: 1200, height: 900 } },
  { name: 'usage', colorScheme: 'dark', viewport: { width: 1000, height: 800 } },
] as const;

test('the screenshots of the console are saved', async () => {
  const path = findChromium();
  if (path === null) throw new Error('no Chromium found: set CHROMIUM_PATH');
  const app = await openConsole();
  const story = await createConsoleStory(app);
  const browser = await launchChromium(path);
  for (const { name, ...look } of PICTURES) {
    const context = await browser.newContext({ ...look, timezoneId: 'UTC', locale: 'en-GB' });
    const page = await context.newPage();
    await page.goto(`${app.url}/console`);
    await page.getByLabel('Your key').fill(story.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL('**/console/rooms');
    await page.goto(app.url + story.pages[name]);
    await page.screenshot({ path: join(FOLDER, `${name}.png`) });
    await context.close();
  }
  await browser.close();
  await app.close();
});
