import { z } from 'zod';
import { Count, Positive } from './field-kinds.js';
import type { Content } from './content.js';

/** An engine replaces each by a run of ids. A request with ids also says which of them stand for which picture. */

export interface Place {
  offset: number;
  length: number;
}

export const PlacedPicture = z.object({
  offset: Count.describe("index in the message of the picture's first id"),
  length: Positive.describe('how many ids the picture has'),
  url: z.string().describe('URL of the picture, or `sha256:` and the hash of its `data:` URL'),
});
export type PlacedPicture = z.infer<typeof PlacedPicture>;

/** The URLs of all pictures, in reading order. */
export const pictureUrls = (messages: readonly { content: Content }[]): string[] =>
  messages.flatMap(({ content }) =>
    typeof content === 'string'
      ? []
      : content.flatMap((part) => (part.type === 'image_url' ? [part.image_url.url] : [])),
  );

/** Each message with the pictures that begin in its ids. */
export function withPictures<M extends { token_ids: readonly number[] }>(
  messages: readonly M[],
  pictures: readonly PlacedPicture[],
): (M & { pictures?: PlacedPicture[] })[] {
  let end = 0;
  return messages.map((message) => {
    const start = end;
    end += message.token_ids.length;
    const own = pictures.filter(({ offset }) => offset >= start && offset < end);
    if (own.length === 0) return message;
    return { ...message, pictures: own.map((one) => ({ ...one, offset: one.offset - start })) };
  });
}

export function picturesIn(
  messages: readonly { token_ids: readonly number[]; pictures?: readonly PlacedPicture[] }[],
  from: number,
): PlacedPicture[] {
  let start = from;
  return messages.flatMap(({ token_ids, pictures = [] }) => {
    const own = pictures.map((one) => ({ ...one, offset: one.offset + start }));
    start += token_ids.length;
    return own;
  });
}
