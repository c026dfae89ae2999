// Finds and starts the Chromium of this machine for playwright-core, which includes no browser.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome', 'microsoft-edge'];

/** The path of a Chromium: from CHROMIUM_PATH, a usual name on PATH, or playwright's cache. Null if there is none. */
export function findChromium(env: Readonly<Record<string, string | undefined>> = process.env): string | null {
  const named = env['CHROMIUM_PATH'];
  if (named) return existsSync(named) ? named : null;
  const onPath = NAMES.map((name) => pathOf(name)).find((path) => path !== null);
  if (onPath) return onPath;
  const cached = chromium.executablePath();
  return existsSync(cached) ? cached : null;
}

function pathOf(name: string): string | null {
  try {
    return execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim() || null;
  } catch {
    return null;
  }
}

export function launchChromium(path: string): Promise<Browser> {
  // As root, and in containers with a small /dev/shm, Chromium does not start without these.
  return chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });
}
