import type { CallMessage, ToolCall } from '../../model/calls/message.js';
import { shapeProblem } from '../../platform/json/depth.js';
import { badRequest } from '../request/refusals.js';
import type { AgentRequest, RequestLimits } from '../request/request.js';

/** A conversation that an agent sends, in the form that all dialects have in common. */

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
