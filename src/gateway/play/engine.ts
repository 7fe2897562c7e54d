import type { CallMessage } from '../../model/calls/message.js';
import type { ForeignObject } from '../../model/foreign-object.js';
import type { Tools } from '../../model/journal/agent-lines.js';
import type { Call, Pool } from '../../sampling/call.js';

/** What the gateway asks of engines beside answers: ids of conversations, and text of ids. Any replica can tell both. */

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

interface Asking extends Pick<Call, 'session_id' | 'sharer'> {
  /** Served name. */
  model: string;
  chat_template_kwargs: ForeignObject;
  signal: AbortSignal;
}

const MOST_ENDS = 32;

export function engineOf(
  { request }: Pick<Pool, 'request'>,
  { model, chat_template_kwargs, ...asking }: Asking,
): { render: RenderConversation; detokenize: (token_ids: readonly number[]) => Promise<string> } {
  const small = { ...asking, is_generation: false };
  const { signal } = asking;
  const decoded = (token_ids: readonly number[]): Promise<string> =>
    request(small, (service) => service.detokenize({ model, token_ids }, signal));
  /** The texts of single tokens that end answers, few and always the same. */
  const ends = new Map<number, string>();
  return {
    render: ({ messages, tools }) =>
      request({ ...small, is_suspect: true }, (service) =>
        service.renderChat(
          {
            model,
            messages: messages.map(wireMessage),
            add_generation_prompt: true,
            chat_template_kwargs,
            ...(tools !== null && { tools: tools.tools }),
          },
          signal,
        ),
      ),
    detokenize: async (token_ids) => {
      const [id, ...more] = token_ids;
      if (id === undefined || more.length > 0) return await decoded(token_ids);
      const text = ends.get(id) ?? (await decoded(token_ids));
      if (ends.size < MOST_ENDS) ends.set(id, text);
      return text;
    },
  };
}
