import type { CallMessage } from '../../src/model/calls/message.js';
import type { Content } from '../../src/model/content.js';
import type { Message, Part } from '../documents.js';

/** A message of a prompt or of an environment, whose pictures are in place. */
export const messageOf = ({
  role,
  content,
  token_ids,
}: {
  role: string;
  content: Content;
  token_ids: readonly number[];
}): Message => ({ role, parts: partsOf(content), token_count: token_ids.length });

/** A message that a program has sent: only its whole request has ids. */
export const sentMessage = ({ role, content, ...rest }: CallMessage): Message => ({
  role,
  parts: partsOf(content),
  token_count: null,
  ...rest,
});

const partsOf = (content: Content): Part[] =>
  typeof content === 'string'
    ? content === ''
      ? []
      : [{ kind: 'text', text: content }]
    : content.map((part) => (part.type === 'text' ? textPart(part) : picture(part.image_url.url)));

const textPart = ({ text }: { text: string }): Part => ({ kind: 'text', text });

/** A page asks nobody for a picture, so one that stands elsewhere is only named. */
const picture = (url: string): Part =>
  /^data:image\//i.test(url)
    ? { kind: 'picture', url, name: 'picture' }
    : { kind: 'picture', url: null, name: url };
