import type { GenerationSettings } from '../model/batch-request.js';
import { textOf } from '../model/content.js';
import type { LogMessage, Message } from '../model/sample.js';
import type { GenerationService } from '../generation/generation-service.js';

interface RenderContext {
  service: GenerationService;
  generation: GenerationSettings;
  signal: AbortSignal;
}

/**
 * The prompt's token ids, message by message; concatenated they are what the policy is given first. Ids that the
 * sample brings are used as they are. Otherwise the service renders: the engine's own template and tokenizer are the
 * ones that training must agree with.
 */
export async function renderPrompt(
  messages: readonly Message[],
  context: RenderContext,
): Promise<LogMessage[]> {
  if (messages.every((message) => message.token_ids !== undefined)) {
    return messages.map((message) => ({ ...message, token_ids: message.token_ids ?? [] }));
  }
  const ids =
    context.generation.prompt_format === 'raw'
      ? await encodeEach(messages, context)
      : await renderChat(messages, context);
  return messages.map((message, k) => ({ ...message, token_ids: ids[k] ?? [] }));
}

/** Each content alone; only the first may get the tokenizer's own beginning. */
function encodeEach(
  messages: readonly Message[],
  { service, generation, signal }: RenderContext,
): Promise<number[][]> {
  const model = generation.model ?? '';
  return Promise.all(
    messages.map(({ content }, k) =>
      service.tokenize({ model, text: textOf(content), add_special_tokens: k === 0 }, signal),
    ),
  );
}

/**
 * Message k gets the ids that rendering messages 0…k adds, the last one with the generation prompt. A template that
 * rewrites earlier messages has no such split: then all ids stand on the last message.
 */
async function renderChat(
  messages: readonly Message[],
  { service, generation, signal }: RenderContext,
): Promise<number[][]> {
  const { model, chat_template_kwargs } = generation;
  const chat = messages.map(({ role, content }) => ({ role, content }));
  const renderings = await Promise.all(
    chat.map((_, k) =>
      service.renderChat(
        {
          model: model ?? '',
          messages: chat.slice(0, k + 1),
          add_generation_prompt: k === chat.length - 1,
          chat_template_kwargs,
        },
        signal,
      ),
    ),
  );
  return splitRendering(renderings);
}

/** `renderings[k]` are the ids of messages 0…k; the last is the whole. */
export function splitRendering(renderings: readonly number[][]): number[][] {
  const whole = renderings.at(-1) ?? [];
  const grows = renderings.every((ids, k) => {
    const before = renderings[k - 1]?.length ?? 0;
    return ids.length >= before && ids.every((id, i) => id === whole[i]);
  });
  if (!grows) return renderings.map((_, k) => (k === renderings.length - 1 ? whole : []));
  return renderings.map((ids, k) => ids.slice(renderings[k - 1]?.length ?? 0));
}
