import { z } from 'zod';
import { Word } from './field-kinds.js';
import { nullIsAbsent } from './absent.js';

/** Text, or parts in reading order, spelled as in OpenAI's chat API. Output of the policy is always text. */
const TextPart = z.strictObject({
  type: z.literal('text').describe('a text'),
  text: z.string().describe('the text'),
});
const ImagePart = z.strictObject({
  type: z.literal('image_url').describe('an image'),
  image_url: nullIsAbsent(
    z.strictObject({
      url: Word.describe('`https:`, `file:` (where the engine allows it) or `data:`'),
      detail: z
        .enum(['auto', 'low', 'high'])
        .optional()
        .describe(
          'the resolution at which the engine looks at it, if its model distinguishes them',
        ),
    }),
  ).describe('the image'),
});

const ContentPart = nullIsAbsent(
  z.discriminatedUnion('type', [TextPart, ImagePart], {
    error: 'expected a part of type text or image_url',
  }),
);

export const Content = z.union([z.string(), z.array(ContentPart).min(1)], {
  error: 'expected a text, or a list of parts of type text or image_url',
});
export type Content = z.infer<typeof Content>;

export const textOf = (content: Content): string =>
  typeof content === 'string'
    ? content
    : content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');

/** The log that an environment gets: role and text. With ids it would depend on one tokenizer. */
export const textLog = (
  messages: readonly { role: string; content: Content }[],
): { role: string; content: string }[] =>
  messages.map(({ role, content }) => ({ role, content: textOf(content) }));

export const hasImages = (content: Content): boolean =>
  typeof content !== 'string' && content.some(({ type }) => type === 'image_url');

const REFERENCE = 'sample:';

/** `message_log.0.content.1`: the part of the sample that a reference names. */
const placeOf = (message: number, part: number): string =>
  `${REFERENCE}message_log.${message}.content.${part}`;

/** References in place of `data:` URLs: journals, which are read at every turn, have no images. */
export function referenceImages<M extends { content: Content }>(messages: readonly M[]): M[] {
  return mapImages(messages, (url, place) => (url.startsWith('data:') ? place : url));
}

export function restoreImages<M extends { content: Content }>(
  messages: readonly M[],
  sample: readonly { content: Content }[],
): M[] {
  const images = new Map<string, string>();
  mapImages(sample, (url, place) => {
    images.set(place, url);
    return url;
  });
  return mapImages(messages, (url) => images.get(url) ?? url);
}

/** Each image whose URL is known by another one gets that. */
export const renameImages = <M extends { content: Content }>(
  messages: readonly M[],
  known: (url: string) => string,
): M[] => mapImages(messages, known);

export const sizeOf = (content: Content): number =>
  typeof content === 'string'
    ? content.length
    : content.reduce(
        (sum, part) => sum + (part.type === 'text' ? part.text : part.image_url.url).length,
        0,
      );

function mapImages<M extends { content: Content }>(
  messages: readonly M[],
  change: (url: string, place: string) => string,
): M[] {
  return messages.map((message, k) => {
    const { content } = message;
    if (typeof content === 'string') return message;
    const parts = content.map((part, i) =>
      part.type === 'image_url'
        ? {
            ...part,
            image_url: { ...part.image_url, url: change(part.image_url.url, placeOf(k, i)) },
          }
        : part,
    );
    return { ...message, content: parts };
  });
}
