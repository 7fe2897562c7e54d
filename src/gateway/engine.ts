import type { ForeignObject } from '../model/foreign-object.js';
import type { Call, Pool } from '../sampling/call.js';
import type { PlayedAgent } from './agent-session.js';
import { wireMessage } from './rendering.js';

/** What the gateway asks of engines beside answers: ids of conversations, and text of ids. Any replica can tell both. */

interface Asking extends Pick<Call, 'session_id' | 'sharer'> {
  /** Served name. */
  model: string;
  chat_template_kwargs: ForeignObject;
  signal: AbortSignal;
}

export function engineOf(
  { request }: Pick<Pool, 'request'>,
  { model, chat_template_kwargs, ...asking }: Asking,
): Pick<PlayedAgent, 'render' | 'detokenize'> {
  const small = { ...asking, is_generation: false };
  const { signal } = asking;
  return {
    render: ({ messages, tools }) =>
      request(small, (service) =>
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
    detokenize: (token_ids) =>
      request(small, (service) => service.detokenize({ model, token_ids }, signal)),
  };
}
