import type { Content } from '../model/content.js';
import { renameImages } from '../model/content.js';
import { hashNamed, seriesOf } from '../model/picture-names.js';
import { pictureUrls } from '../model/pictures.js';
import type { TrajectoryStore } from './trajectory-store.js';

/** Where the pictures are that a batch's environments have shown. */
export interface Shelf {
  ref: { batch_id: string };
  store: { facts: Pick<TrajectoryStore['facts'], 'find'> };
}

/** A picture that an environment has shown; null: the store does not have it. */
export async function shownUrl(name: string, { ref, store }: Shelf): Promise<string | null> {
  const hash = hashNamed(name);
  if (hash === null) return name;
  return /^[0-9a-f]{64}$/.test(hash) ? await store.facts.find(seriesOf(ref, hash), 0) : null;
}

/** These messages with the pictures themselves in place of their names. A picture that the store lacks stays a name. */
export async function unshelved<M extends { content: Content }>(
  messages: readonly M[],
  shelf: Shelf,
): Promise<M[]> {
  const known = new Map<string, string>();
  for (const name of pictureUrls(messages)) known.set(name, (await shownUrl(name, shelf)) ?? name);
  return renameImages(messages, (url) => known.get(url) ?? url);
}
