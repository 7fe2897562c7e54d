import { existsSync, readdirSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { byCodePoints, reprOf } from '../python/repr.js';

/** Files beside a collection's results that are named after them. */
const BESIDE = /_(?:materialized_inputs|failures|reward_profiling)\.jsonl$/;

interface ShardsOptions {
  cwd: string;
  /** `output_jsonl_fpath` */
  output: string;
  /** Whether the output is written. */
  merge: boolean;
  report: (line: string) => void;
}

/**
 * The shard files that match `input_glob`. A wide pattern also matches the files beside the results, and the output of
 * an earlier run; these are left out unless they are named in full. Throws with upstream's text if nothing matches.
 */
export function shardsOf(
  input_glob: string,
  { cwd, output, merge, report }: ShardsOptions,
): string[] {
  const named = input_glob.split(',').map((pattern) => pattern.trim());
  const found = expandGlobs(input_glob, cwd).filter((file) => {
    const isBeside = BESIDE.test(file) && !named.includes(file);
    if (isBeside) report(`${file} is not a shard: it is named after one`);
    return !isBeside;
  });
  if (found.length === 0) throw new Error(`No shards matched input_glob=${reprOf(input_glob)}`);
  const own = realPath(output, cwd);
  const outputs = found.filter((file) => realPath(file, cwd) === own);
  // Alone it is the whole.
  if (outputs.length === found.length) return found.slice(0, 1);
  const said = outputs.find((file) => named.includes(file));
  if (said !== undefined && merge) {
    throw new Error(
      `${said} is a shard and the output, so the merged results would take its place: give another output_jsonl_fpath, or +merge_shards=false`,
    );
  }
  return found.filter((file) => {
    if (!outputs.includes(file) || named.includes(file)) return true;
    report(`${file} is not a shard: it is the output, from an earlier run`);
    return false;
  });
}

/** Links and other spellings of a path name the same file. */
function realPath(file: string, cwd: string): string {
  const full = path.resolve(cwd, file);
  return existsSync(full) ? realpathSync(full) : full;
}

/**
 * Comma-separated glob patterns, as Python's `glob` reads them: the matches of each are sorted, and each file comes
 * once.
 */
export function expandGlobs(patterns: string, cwd: string): string[] {
  const list = patterns
    .split(',')
    .map((pattern) => pattern.trim())
    .filter((pattern) => pattern !== '');
  return [...new Set(list.flatMap((pattern) => matches(pattern, cwd)))];
}

const MAGIC = /[*?[]/;

const isPattern = (text: string): boolean => MAGIC.test(text);

function matches(pattern: string, cwd: string): string[] {
  const { root } = path.parse(pattern);
  const parts = pattern.slice(root.length).split('/');
  let found = [root];
  for (const [index, part] of parts.entries()) {
    const isLast = index === parts.length - 1;
    found = found.flatMap((folder) => {
      const names = isPattern(part) ? namesIn(path.resolve(cwd, folder), part) : [part];
      return names
        .map((name) => `${folder}${name}${isLast ? '' : '/'}`)
        .filter((file) => existsSync(path.resolve(cwd, file)));
    });
  }
  return found.sort(byCodePoints);
}

function namesIn(folder: string, part: string): string[] {
  const wanted = expressionOf(part);
  try {
    return readdirSync(folder).filter(
      (name) => wanted.test(name) && (part.startsWith('.') || !name.startsWith('.')),
    );
  } catch {
    // A file where the pattern has a folder, or an unreadable folder: nothing is found there.
    return [];
  }
}

/** `*`, `?`, `[a-z]`, `[!a-z]`; an unclosed bracket is literal. */
function expressionOf(part: string): RegExp {
  const tokens = part.match(/\[!?\]?[^\]]*\]|[^]/gu) ?? [];
  const source = tokens.map((token) => {
    if (token === '*') return '[^]*';
    if (token === '?') return '[^]';
    if (token.length < 3 || !token.startsWith('['))
      return token.replace(/[\\^$.*+?()[\]{}|/]/, '\\$&');
    const set = token.slice(1, -1).replace(/[\\[\]]/g, '\\$&');
    return set.startsWith('!') ? `[^${set.slice(1)}]` : `[${set.replace(/^\^/, '\\^')}]`;
  });
  return new RegExp(`^${source.join('')}$`, 'u');
}
