import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';

/** What pages may speak of: the repository's files, and the names in its code. */
export interface Repository {
  root: string;
  /** Relative paths of files and folders. */
  paths: ReadonlySet<string>;
  scripts: Readonly<Record<string, string>>;
  /** Texts of programs, by path: no Markdown, no data. */
  sources: ReadonlyMap<string, string>;
  /** Every identifier in them. */
  words: ReadonlySet<string>;
  /** Every option of a command line in them. */
  options: ReadonlySet<string>;
}

/** Made on this machine, so no clone has them. */
const MADE = new Set(
  ['node_modules', 'dist', '.git', '.rollouts', '.lab', '.tests', '.venv'].concat([
    '__pycache__',
    '.mypy_cache',
    'build',
    'checkpoints',
    'durable_rollouts.egg-info',
  ]),
);
const PROGRAM = /\.(?:ts|mjs|cjs|js|py|sh|ya?ml)$|(?:^|\/)package\.json$|^\.ci\/|^docs\/schemas\//;
/** Recordings of other programs. */
const RECORDED = /^test\/(?:goldens|captures|histories|templates|releases\/\d[^/]*)\//;
/** Pages quote what they are to find wrong. */
const OWN = /^test\/docs\/check/;

export async function readRepository(root: string): Promise<Repository> {
  const paths = new Set<string>();
  await listBelow({ root, folder: '' }, paths);
  const programs = [...paths].filter(
    (file) => PROGRAM.test(file) && !RECORDED.test(file) && !OWN.test(file),
  );
  const sources = new Map(
    await Promise.all(
      programs.map(async (file) => [file, await readFile(path.join(root, file), 'utf8')] as const),
    ),
  );
  const all = [...sources.values()].join('\n');
  const words = new Set(all.match(/[A-Za-z_$][\w$]*/g) ?? []);
  const options = new Set(all.match(/(?<![\w-])--[a-z][\w-]*/g) ?? []);
  for (const [, name = ''] of all.matchAll(/'?([a-z][\w-]*)'?: \{ type: '(?:string|boolean)'/g))
    options.add(`--${name}`);
  const { scripts } = JSON.parse(sources.get('package.json') ?? '{}') as Pick<
    Repository,
    'scripts'
  >;
  return { root, paths, scripts, sources, words, options };
}

async function listBelow(
  { root, folder }: { root: string; folder: string },
  found: Set<string>,
): Promise<void> {
  const entries = await readdir(path.join(root, folder), { withFileTypes: true });
  await Promise.all(
    entries.map(async (entry) => {
      if (MADE.has(entry.name) || entry.name.endsWith('.egg-info')) return;
      const place = path.posix.join(folder, entry.name);
      found.add(place);
      if (entry.isDirectory()) await listBelow({ root, folder: place }, found);
    }),
  );
}

/** Every page but those beside recordings, which speak of other programs. */
export const pagesOf = ({ paths }: Repository): string[] =>
  [...paths].filter((file) => file.endsWith('.md') && !RECORDED.test(file)).sort();
