import { homedir } from 'node:os';
import path from 'node:path';
import { shellWord } from './command.js';
import { exists } from './files.js';
import { readText } from './utf8-text.js';

/** Files of the Hugging Face Hub by name, as its cache on this machine has them. Nothing is downloaded. */

type Env = Partial<Record<string, string>>;

export const isHubName = (text: string): boolean => text.startsWith('hf://');

const FORM =
  'hf://datasets/ORGANISATION/NAME[@REVISION][/FILE], without datasets/ for files of a model';
const NAME =
  /^hf:\/\/(datasets\/)?(?!datasets\/|spaces\/)([\w.-]+\/[\w.-]+)(?:@([^/]+))?(?:\/(.*))?$/s;

function parseHubName(name: string) {
  const [, datasets, repository, revision = 'main', file = ''] = NAME.exec(name) ?? [];
  const parsed = {
    type: datasets === undefined ? ('model' as const) : ('dataset' as const),
    repository: repository ?? '',
    // A slash of a branch is written `%2F`.
    revision: revision.replaceAll(/%2f/gi, '/'),
    /** Empty: all of them. */
    file: file.replace(/\/+$/, ''),
  };
  const parts = [parsed.revision, parsed.file].flatMap((text) => text.split('/'));
  if (parsed.repository !== '' && !parts.includes('..')) return parsed;
  throw new Error(`expected ${FORM}, got ${name}`);
}

const given = (env: Env, ...names: string[]): string | undefined =>
  names.map((name) => env[name]).find((value) => value !== undefined && value !== '');

export const namesHubCache = (env: Env): boolean =>
  given(env, 'HF_HUB_CACHE', 'HUGGINGFACE_HUB_CACHE', 'HF_HOME') !== undefined;

/** Where the Hub's own programs keep what they download. */
export function hubCache(env: Env): string {
  const home = given(env, 'HOME') ?? homedir();
  const caches = given(env, 'XDG_CACHE_HOME') ?? path.join(home, '.cache');
  const all = given(env, 'HF_HOME') ?? path.join(caches, 'huggingface');
  const own = given(env, 'HF_HUB_CACHE', 'HUGGINGFACE_HUB_CACHE') ?? path.join(all, 'hub');
  return path.resolve(own.replace(/^~(?=\/|$)/, home));
}

/** The path of a file, or of a whole repository, in the first of the caches that has it; null: none has. */
export async function findInHub(name: string, caches: readonly string[]): Promise<string | null> {
  const { type, repository, revision, file } = parseHubName(name);
  for (const cache of caches) {
    const own = path.join(cache, `${type}s--${repository.replace('/', '--')}`);
    // A branch or tag is a file with a commit's name; any other revision is that name itself.
    const commit = await readText(path.join(own, 'refs', revision)).catch(() => revision);
    const found = path.join(own, 'snapshots', commit.trim(), file);
    if (await exists(found)) return found;
  }
  return null;
}

const isOn = (value: string | undefined): boolean => /^(?:1|true|yes|on)$/i.test(value ?? '');

/** The command that brings it into the cache, from the mirror that the environment names, if it does. */
export function howToDownload(name: string, env: Env): string {
  const { type, repository, revision, file } = parseHubName(name);
  const mirror = given(env, 'HF_ENDPOINT');
  const isFolder = file !== '' && path.extname(file) === '';
  const words = [
    ...(mirror === undefined ? [] : [`HF_ENDPOINT=${mirror}`]),
    ...(isOn(env['HF_HUB_OFFLINE']) ? ['HF_HUB_OFFLINE=0'] : []),
    ...['hf', 'download', repository],
    ...(isFolder ? ['--include', `${file}/*`] : file === '' ? [] : [file]),
    ...(type === 'dataset' ? ['--repo-type', 'dataset'] : []),
    ...(revision === 'main' ? [] : ['--revision', revision]),
    ...['--cache-dir', hubCache(env)],
  ];
  return words.map(shellWord).join(' ');
}

/** The place of a data set's repository, or of a file in it, for a browser. */
export function hubPage(
  repository: string,
  { file, env }: { file: string | null; env: Env },
): string {
  const endpoint = (given(env, 'HF_ENDPOINT') ?? 'https://huggingface.co').replace(/\/+$/, '');
  const page = `${endpoint}/datasets/${repository}`;
  return file === null ? page : `${page}/resolve/main/${file}`;
}

/** A path stays as it is; a name of the Hub becomes the path in its cache, or an error that says how to get it. */
export async function pathOf(text: string, env: Env): Promise<string> {
  if (!isHubName(text)) return text;
  const cache = hubCache(env);
  const found = await findInHub(text, [cache]);
  if (found !== null) return found;
  throw new Error(
    `${text}: expected it in the cache of the Hugging Face Hub (${cache}); get it by: ${howToDownload(text, env)}`,
  );
}
