import { createHash } from 'node:crypto';
import { PICTURE } from '../policy/tokenizer.js';
import { badRequest, errorBody, Refusal } from './http-exchange.js';

/** Pictures: a placeholder in a template's text, which becomes a run of ids. */

interface Expanded {
  token_ids: number[];
  places: { offset: number; length: number }[];
}

/** How many ids a picture becomes: some, so that different pictures have different runs. */
const lengthOf = (url: string): number => 4 + ((sha256(url)[0] ?? 0) % 8);

export const sha256 = (url: string): Buffer => createHash('sha256').update(url).digest();

/** The first placeholder becomes the first picture, and so on; further placeholders stay. */
export function expand(ids: readonly number[], urls: readonly string[]): Expanded {
  const token_ids: number[] = [];
  const places: Expanded['places'] = [];
  for (const id of ids) {
    const url = id === PICTURE ? urls[places.length] : undefined;
    if (url === undefined) {
      token_ids.push(id);
      continue;
    }
    const length = lengthOf(url);
    places.push({ offset: token_ids.length, length });
    for (let i = 0; i < length; i++) token_ids.push(PICTURE);
  }
  if (places.length === urls.length) return { token_ids, places };
  // Capture 240.
  const message = `Failed to apply prompt replacement for mm_items['image'][${places.length}]`;
  const body = errorBody({ message, type: 'InternalServerError', param: null, code: 500 });
  throw new Refusal({ status: 500, body });
}

/** The pictures of `content_parts`. */
export function picturesOf(parts: readonly Readonly<Record<string, unknown>>[]): string[] {
  return parts.map(({ type, url }, i) => {
    if (type === 'image_url' && typeof url === 'string' && url !== '') return url;
    throw badRequest(`content_parts.${i}: expected type image_url and its url`);
  });
}

/** Capture 203. */
export function scaleOutIsOff(): Refusal {
  const message =
    'Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.';
  const body = errorBody({ message, type: 'PermissionDeniedError', param: null, code: 403 });
  return new Refusal({ status: 403, body });
}
