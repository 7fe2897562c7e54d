import { preview } from '../../model/problems.js';
import { isRecord } from '../../platform/json/object.js';
import { badRequest } from '../request/refusals.js';

/** The text of a message's content. Parts are lines, as vLLM joins them. */
export function contentText(
  content: unknown,
  { where, isOptional }: { where: string; isOptional: boolean },
): string {
  if (typeof content === 'string') return wellFormed(content);
  if (content == null && isOptional) return '';
  if (Array.isArray(content))
    return content.map((part, k) => partText(part, `${where}[${k}]`)).join('\n');
  throw badRequest(`${where}: expected a string or a list of parts, got ${preview(content)}`, {
    param: where,
  });
}

const TEXTS = new Set(['text', 'input_text', 'output_text']);

function partText(part: unknown, where: string): string {
  const fields = isRecord(part) ? part : {};
  const { type, text, image_url } = fields;
  if (typeof type === 'string' && TEXTS.has(type) && typeof text === 'string')
    return wellFormed(text);
  if (type === 'image_url' || type === 'input_image')
    throw badRequest(`${where}: ${pictureProblem(image_url)}`, {
      param: where,
      code: 'unsupported_picture',
    });
  throw badRequest(
    `${where}: expected a part of type text with a text, got ${preview(type ?? part)}`,
    { param: where },
  );
}

/** Nothing in a request makes this program or an engine open an address. */
function pictureProblem(image: unknown): string {
  const url = isRecord(image) ? image['url'] : image;
  const isData = typeof url === 'string' && /^data:/i.test(url);
  return isData
    ? 'expected text, got a picture: pictures of agents are not taken yet'
    : `expected text, got a picture by ${preview(url)}: no address is opened`;
}

/** Half a surrogate pair has no UTF-8. */
const wellFormed = (text: string): string => text.toWellFormed();
