// The console's style sheet, script and icon. Each file is read once, and its path contains a hash of its content, so that
// browsers can cache it without limit.

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

/** `npm run build` copies the files into dist, beside the compiled module. */
const FOLDER = join(__dirname, 'assets');

const assets = new Map<AssetName, Asset>();

function assetOf(name: AssetName): Asset {
  const cached = assets.get(name);
  if (cached !== undefined) return cached;
  const bytes = readFileSync(join(FOLDER, name));
  const hash = createHash('sha256').update(bytes).digest('base64url').slice(0, 16);
  const asset = { type: TYPES[name], bytes, path: `${CONSOLE}/assets/${hash}/${name}` };
  assets.set(name, asset);
  return asset;
}

/** The path under which pages link to the asset. */
export function assetPath(name: AssetName): string {
  return assetOf(name).path;
}

/** All assets, for the routes that serve them. */
export function allAssets(): readonly Asset[] {
  return (Object.keys(TYPES) as AssetName[]).map(assetOf);
}
