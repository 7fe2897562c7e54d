import type { CallMessage } from '../model/calls/message.js';

/**
 * Many templates take a `system` message only as the first. A later one has another role by `role_map`, or else becomes
 * part of the user's message that follows, or a user's message of its own. What stands behind an answer never changes
 * what stands before it.
 */
export function splitSystem(
  messages: readonly CallMessage[],
  role_map: Readonly<Record<string, string>>,
): { system: string | null; messages: CallMessage[] } {
  const [first, ...rest] = messages;
  const begins = first?.role === 'system';
  const later = begins ? rest : messages;
  const mapped = Object.hasOwn(role_map, 'system') ? role_map['system'] : undefined;
  const placed: CallMessage[] = [];
  let held: string[] = [];
  const put = (message: CallMessage | null): void => {
    if (message?.role === 'user') {
      placed.push({ ...message, content: [...held, message.content].join('\n\n') });
    } else {
      if (held.length > 0) placed.push({ role: 'user', content: held.join('\n\n') });
      if (message !== null) placed.push(message);
    }
    held = [];
  };
  for (const message of later) {
    if (message.role !== 'system') put(message);
    else if (mapped !== undefined) put({ ...message, role: mapped });
    else held.push(message.content);
  }
  put(null);
  return { system: begins ? first.content : null, messages: placed };
}
