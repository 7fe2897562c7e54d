import type { Place } from '../../model/pictures.js';
import { joinedIds } from '../../model/token-id.js';

/** A prompt with pictures as `/inference/v1/generate` takes it. */

/** One of `content_parts`: other than in messages, its URL is its own field. */
interface MediaPart {
  type: 'image_url';
  url: string;
}

export const mediaParts = (pictures: readonly { url: string }[]): MediaPart[] =>
  pictures.map(({ url }) => ({ type: 'image_url', url }));

/** Each run of ids becomes the placeholder. */
export function folded(
  ids: readonly number[],
  { places, placeholder }: { places: readonly Place[]; placeholder: readonly number[] },
): number[] {
  let from = 0;
  const parts = places.flatMap(({ offset, length }) => {
    const before = ids.slice(from, offset);
    from = offset + length;
    return [before, placeholder];
  });
  return joinedIds([...parts, ids.slice(from)]);
}
