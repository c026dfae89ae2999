// The console's style sheet and script: files beside this code, read once, and named by what they hold so that browsers may
// keep them.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONSOLE } from './paths';

const TYPES = {
  'console.css': 'text/css; charset=utf-8',
  'console.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
} as const;
type AssetName = keyof typeof TYPES;

export interface Asset {
  readonly type: string;
  readonly bytes: Buffer;
  readonly path: string;
}

/** Beside this module: `npm run build` copies the files into dist. */
const FOLDER = join(__dirname, 'assets');

const assets = new Map<AssetName, Asset>();

function assetOf(name: AssetName): Asset {
  const known = assets.get(name);
  if (known !== undefined) return known;
  const bytes = readFileSync(join(FOLDER, name));
  const hash = createHash('sha256').update(bytes).digest('base64url').slice(0, 16);
  const asset = { type: TYPES[name], bytes, path: `${CONSOLE}/assets/${hash}/${name}` };
  assets.set(name, asset);
  return asset;
}

/** What a page refers to. */
export function assetPath(name: AssetName): string {
  return assetOf(name).path;
}

/** Every asset, to be served. */
export function allAssets(): readonly Asset[] {
  return (Object.keys(TYPES) as AssetName[]).map(assetOf);
}
