import { createHash } from 'node:crypto';
import type { Content } from './content.js';
import { renameImages } from './content.js';
import { pictureUrls } from './pictures.js';

/**
 * Journals name pictures by hash. Those of the prompt are in the sample, and those that the environment has shown are
 * facts of the store, once for each batch.
 */

const HASH = 'sha256:';

/** What journals have in place of a picture's bytes. */
export const pictureName = (url: string): string =>
  url.startsWith('data:') ? `${HASH}${createHash('sha256').update(url).digest('hex')}` : url;

/** The hash, if that is what it names. */
export const hashNamed = (name: string): string | null =>
  name.startsWith(HASH) ? name.slice(HASH.length) : null;

type Series = [string, ...string[]];

/** Where the pictures are that a batch's environments have shown. */
export interface Shelf {
  ref: { batch_id: string };
  store: { facts: { find: (series: Series, n: number) => Promise<string | null> } };
}

export const seriesOf = ({ batch_id }: Shelf['ref'], hash: string): Series => [
  batch_id,
  'pictures',
  hash,
];

/** A picture that an environment has shown; null: the store does not have it. */
export async function shownUrl(name: string, { ref, store }: Shelf): Promise<string | null> {
  const hash = hashNamed(name);
  if (hash === null) return name;
  return /^[0-9a-f]{64}$/.test(hash) ? await store.facts.find(seriesOf(ref, hash), 0) : null;
}

/** These messages with the pictures themselves in place of their names. One that the store does not have stays one. */
export async function unshelved<M extends { content: Content }>(
  messages: readonly M[],
  shelf: Shelf,
): Promise<M[]> {
  const known = new Map<string, string>();
  for (const name of pictureUrls(messages)) known.set(name, (await shownUrl(name, shelf)) ?? name);
  return renameImages(messages, (url) => known.get(url) ?? url);
}
