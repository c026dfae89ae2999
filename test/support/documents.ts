// Reads the documents of the repository and the paths, links, commands and variables that they name.

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(__dirname, '..', '..');

export interface Document {
  /** Relative to the repository, such as `docs/api.md`. */
  readonly path: string;
  readonly text: string;
}

export interface Link {
  /** Empty for a link into the same document. */
  readonly path: string;
  readonly anchor: string | null;
}

/** The text of a file of the repository. */
export function readProjectFile(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** Every document for readers: those in the root, in `docs/` and in `docs/decisions/`. */
export function readDocuments(): Document[] {
  return ['.', 'docs', 'docs/decisions'].flatMap((folder) =>
    readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => (folder === '.' ? name : `${folder}/${name}`))
      .map((path) => ({ path, text: readProjectFile(path) })),
  );
}

/** Every tracked file and every new file that is not ignored, with the folders that hold them. */
export function listProjectPaths(): Set<string> {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const paths = new Set<string>();
  for (const file of listed.split('\n').filter(Boolean)) {
    const parts = file.split('/');
    for (let end = 1; end <= parts.length; end += 1) paths.add(parts.slice(0, end).join('/'));
  }
  return paths;
}

/** The code spans outside of fenced blocks. */
export function codeSpans(text: string): string[] {
  return [...withoutFences(text).matchAll(/`([^`]+)`/g)].map(([, span = '']) => span.replaceAll(/\s+/g, ' '));
}

/** The contents of the fenced blocks that have one of these languages; '' is a block without a language. */
export function fencedBlocks(text: string, ...languages: readonly string[]): string[] {
  return [...text.matchAll(/^```([\w-]*)\n([\s\S]*?)^```/gm)]
    .filter(([, language = '']) => languages.includes(language))
    .map(([, , block = '']) => block);
}

/** Relative links and images. Links to other hosts are not included. */
export function relativeLinks(text: string): Link[] {
  return [...withoutFences(text).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path = '', anchor] = target.split('#');
      return { path, anchor: anchor ?? null };
    });
}

/** The anchors of the headings, as GitHub makes them. */
export function headingAnchors(text: string): Set<string> {
  const seen = new Map<string, number>();
  const anchors = [...withoutFences(text).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => {
    const anchor = heading
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-');
    const count = seen.get(anchor) ?? 0;
    seen.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  });
  return new Set(anchors);
}

const FILE_ENDING = /\.(ts|tsx|js|json|md|sql|prisma|yaml|yml|svg|png|css)$/;
const ROOT_FILES = /^(Dockerfile|LICENSE|\.nvmrc|\.editorconfig|\.env\.example|\.oxlintrc\.json)$/;

/**
 * The path of the repository that a code span names, or null if the span names none.
 *
 * Not paths of the repository: routes, placeholders, commands, the build outputs, and names that a reader chooses.
 */
export function projectPathOf(span: string, topFolders: ReadonlySet<string>): string | null {
  if (/[\s{}<>…$=:*|"'()@]/.test(span) || /^(\/|\.\/|https?:)/.test(span)) return null;
  const path = span.replace(/\/$/, '');
  if (ROOT_FILES.test(path)) return path;
  const [top = ''] = path.split('/');
  if (path.includes('/')) return topFolders.has(top) ? path : null;
  return FILE_ENDING.test(path) || topFolders.has(path) || span.endsWith('/') ? path : null;
}

function withoutFences(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```/gm, '');
}
