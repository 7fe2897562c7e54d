import type { CallMessage, ToolCall } from '../../model/calls/message.js';
import { preview } from '../../model/problems.js';
import { shapeProblem } from '../../platform/json/depth.js';
import { isRecord } from '../../platform/json/object.js';
import { badRequest } from '../request/refusals.js';
import type { AgentRequest, RequestLimits } from '../request/request.js';

/** `field`: where the agent has them. Throws a `Refused`. */
export function conversationOf(
  messages: readonly CallMessage[],
  { field, role_map }: { field: string } & Pick<RequestLimits, 'role_map'>,
): Pick<AgentRequest, 'system' | 'messages'> {
  if (messages.at(-1)?.role === 'assistant')
    throw badRequest(
      `${field}: expected a last one of role user or tool, got assistant: an answer that is begun (prefill) is not continued`,
      { param: field },
    );
  const conversation = splitSystem(messages, role_map);
  if (conversation.messages.length === 0)
    throw badRequest(`${field}: expected one that is no system message`, { param: field });
  return conversation;
}

export const roleOf = (role: string): string => (role === 'developer' ? 'system' : role);

/** Engines parse the arguments, too. Some clients say nothing where there are none. `where`: of the arguments. */
export function toolCall({ id, name, arguments: given }: ToolCall, where: string): ToolCall {
  const problem = shapeProblem(given);
  if (problem !== null) throw badRequest(`${where}: ${problem}`, { param: where });
  return { id, name, arguments: given.trim() === '' ? '{}' : given };
}

/**
 * Many templates take a `system` message only as the first. A later one has another role by `role_map`, or else becomes
 * part of the user's message that follows, or a user's message of its own. What stands behind an answer never changes
 * what stands before it.
 */
function splitSystem(
  messages: readonly CallMessage[],
  role_map: Readonly<Record<string, string>>,
): Pick<AgentRequest, 'system' | 'messages'> {
  const [first, ...rest] = messages;
  const begins = first?.role === 'system';
  const later = begins ? rest : messages;
  const mapped = Object.hasOwn(role_map, 'system') ? role_map['system'] : undefined;
  const placed: CallMessage[] = [];
  let kept: string[] = [];
  const put = (message: CallMessage | null): void => {
    if (message?.role === 'user') {
      placed.push({ ...message, content: [...kept, message.content].join('\n\n') });
    } else {
      if (kept.length > 0) placed.push({ role: 'user', content: kept.join('\n\n') });
      if (message !== null) placed.push(message);
    }
    kept = [];
  };
  for (const message of later) {
    if (message.role !== 'system') put(message);
    else if (mapped !== undefined) put({ ...message, role: mapped });
    else kept.push(message.content);
  }
  put(null);
  return { system: begins ? first.content : null, messages: placed };
}

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
