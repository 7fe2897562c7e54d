import type { GenerationService, Rendering } from '../generation/generation-service.js';
import type { Content } from '../model/content.js';
import { hasImages, renameImages } from '../model/content.js';
import { Fault } from '../model/faults.js';
import { hashNamed, pictureName, seriesOf } from '../model/picture-names.js';
import type { PlacedPicture } from '../model/pictures.js';
import { pictureUrls } from '../model/pictures.js';
import type { RolloutRef } from '../model/batch-request.js';
import { shownUrl, unshelved } from '../trajectories/shelf.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { GenerationPool } from './dependencies.js';
import type { Playing } from './playing.js';
import { journalLost } from './playing.js';
import { sampleOf } from './request-of.js';

const picturesByName = (messages: readonly { content: Content }[]): Map<string, string> =>
  new Map(pictureUrls(messages).map((url) => [pictureName(url), url]));

/** The service's route for pictures. A message has some, so it must have one; planning has asked for it. */
export function pictureRoute({
  pictures,
  replica,
}: GenerationService): NonNullable<GenerationService['pictures']> {
  if (pictures !== undefined) return pictures;
  throw new Fault({
    type: 'GenerationRejected',
    message: `${replica}: expected an engine that takes pictures together with ids, got one that takes ids alone`,
    at: replica,
  });
}

/** What is journalled of a rendering: each picture under its name. */
export const placed = (
  { places }: Pick<Rendering, 'places'>,
  messages: readonly { content: Content }[],
): PlacedPicture[] => {
  const urls = pictureUrls(messages);
  return places.map((place, i) => ({ ...place, url: pictureName(urls[i] ?? '') }));
};

export const showsPictures = (messages: readonly { content: Content }[]): boolean =>
  messages.some(({ content }) => hasImages(content));

/** The pictures of the turn's prompt as an engine takes them. */
export async function picturesOf(
  { ref, journal }: Pick<Playing, 'ref' | 'journal'>,
  { store }: { store: TrajectoryStore },
): Promise<PlacedPicture[]> {
  const { pictures } = journal.trajectory;
  if (pictures.every(({ url }) => hashNamed(url) === null)) return pictures;
  const { sample } = await sampleOf(ref, store);
  const known = picturesByName(sample.message_log);
  return await Promise.all(
    pictures.map(async (picture) => {
      const url = known.get(picture.url) ?? (await shownUrl(picture.url, { ref, store }));
      if (url === null) throw journalLost(ref, { lacks: `the picture ${picture.url}`, store });
      return { ...picture, url };
    }),
  );
}

interface Shelved {
  ref: RolloutRef;
  store: TrajectoryStore;
}

/** The answer with the names of its pictures, which are in the store from here on. */
export async function shelved<A extends { message: { role: string; content: Content } | null }>(
  answer: A,
  { ref, store }: Shelved,
): Promise<A> {
  const { message } = answer;
  if (message === null || !hasImages(message.content)) return answer;
  for (const [name, url] of picturesByName([message])) {
    const hash = hashNamed(name);
    if (hash !== null) await store.facts.put({ series: seriesOf(ref, hash), n: 0, text: url });
  }
  return { ...answer, message: renameImages([message], pictureName)[0] ?? message };
}

/** An observation as it is rendered, and whether its pictures go to the engine. Throws where no engine may see them. */
export async function withPicturesOf<M extends { content: Content }>(
  message: M,
  { isChat, pool, ...shelf }: Shelved & { isChat: boolean; pool: GenerationPool },
): Promise<{ message: M; is_sent: boolean }> {
  if (!hasImages(message.content)) return { message, is_sent: false };
  if (!isChat)
    throw refused(
      'a text with generation.observation_format bare, got an image: only a chat template renders images',
    );
  if (pool.images === 'none')
    throw refused(
      'a text, got an image, which the generation service does not take (temporal.yaml: images)',
    );
  const [shown = message] = await unshelved([message], shelf);
  return { message: shown, is_sent: pool.images === 'engine' };
}

const refused = (what: string): Fault =>
  new Fault({
    type: 'EnvironmentRejected',
    message: `the environment answered: observations.0.content: expected ${what}`,
  });
