import type { CallMessage } from '../../model/calls/message.js';
import type { Tools } from '../../model/journal/agent-lines.js';

/** What the gateway needs of an engine's chat template. */

/** Tools of a request under the hash of their meaning. */
export interface HashedTools {
  hash: string;
  tools: Tools;
}

export interface Conversation {
  messages: readonly CallMessage[];
  tools: HashedTools | null;
}

/** Ids of a conversation with the generation prompt. Throws a `GenerationRejected` if the template refuses it. */
export type RenderConversation = (conversation: Conversation) => Promise<number[]>;

/** A message as engines take it (`messages` of `/tokenize`). */
export const wireMessage = ({
  role,
  content,
  reasoning,
  tool_calls,
  tool_call_id,
}: CallMessage) => ({
  role,
  content,
  // One field for older engines, one for newer.
  ...(reasoning !== undefined && { reasoning_content: reasoning, reasoning }),
  ...(tool_calls !== undefined && {
    tool_calls: tool_calls.map(({ id, name, arguments: given }) => ({
      id,
      type: 'function' as const,
      function: { name, arguments: given },
    })),
  }),
  ...(tool_call_id !== undefined && { tool_call_id }),
});
