import type { ForeignObject } from '../../model/foreign-object.js';
import type { Call, Pool } from '../../sampling/call.js';
import type { PlayedAgent } from '../agent-session.js';
import { wireMessage } from './rendering.js';

/** What the gateway asks of engines beside answers: ids of conversations, and text of ids. Any replica can tell both. */

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
): Pick<PlayedAgent, 'render' | 'detokenize'> {
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
