import type { GenerationSettings } from '../../model/generation-settings.js';
import { textOf } from '../../model/content.js';
import type { LogMessage } from '../../model/results/row-parts.js';
import type { Message } from '../../model/sample.js';
import { commonPrefix } from '../../model/turn/chat-turn.js';
import { isTemplateRefusal } from '../../model/turn/template-check.js';
import type { GenerationService, Rendering } from '../../generation/generation-service.js';
import { withPictures } from '../../model/pictures.js';
import { pictureRoute, placed, showsPictures } from '../pictures.js';

interface RenderContext {
  service: GenerationService;
  generation: GenerationSettings;
  /** Default: its engines get only the ids of pictures, and whoever adds them the pictures. */
  sends_pictures?: boolean;
  signal: AbortSignal;
  /** Throws if a prompt of this many tokens is too long. It is called before the messages are rendered one by one. */
  check: (tokens: number) => void;
}

/**
 * The prompt's token ids, message by message; concatenated they are the first prompt of the policy. Ids of the sample
 * are used as they are. Otherwise the service renders, because training must agree with the engine's own template and
 * tokenizer.
 */
export async function renderPrompt(
  messages: readonly Message[],
  context: RenderContext,
): Promise<LogMessage[]> {
  if (messages.every((message) => message.token_ids !== undefined)) {
    return messages.map((message) => ({ ...message, token_ids: message.token_ids ?? [] }));
  }
  const { ids, places } =
    context.generation.prompt_format === 'raw'
      ? { ids: await encodeEach(messages, context), places: [] }
      : await renderChat(messages, context);
  return withPictures(
    messages.map((message, k) => ({ ...message, token_ids: ids[k] ?? [] })),
    placed({ places }, messages),
  );
}

/** Each content alone; only the first may get the tokenizer's beginning of sequence. */
function encodeEach(
  messages: readonly Message[],
  { service, generation, signal }: RenderContext,
): Promise<number[][]> {
  const encode = (text: string, add_special_tokens: boolean): Promise<number[]> =>
    service.tokenize({ model: generation.model ?? '', text, add_special_tokens }, signal);
  return eachInTurn(messages, async ({ content }, k) => {
    const text = textOf(content);
    const ids = await encode(text, k === 0);
    if (k > 0 || ids.length < 2 || ids[0] !== ids[1]) return ids;
    const own = await encode(text, false);
    // A text that begins with the beginning of sequence brings it; a second one would change the distribution.
    return own[0] === ids[0] && commonPrefix(ids.slice(1), own) === own.length ? ids.slice(1) : ids;
  });
}

/**
 * Message k gets the ids that rendering messages 0…k adds, the last one with the generation prompt. If a template
 * rewrites earlier messages, or refuses them alone, there is no such split, and all ids belong to the last message.
 */
async function renderChat(
  messages: readonly Message[],
  { service, generation, sends_pictures = false, signal, check }: RenderContext,
): Promise<{ ids: number[][]; places: Rendering['places'] }> {
  const { model, chat_template_kwargs } = generation;
  const chat = messages.map(({ role, content }) => ({ role, content }));
  const render = async (count: number): Promise<Rendering> => {
    const some = chat.slice(0, count);
    const add_generation_prompt = count === chat.length;
    const asked = {
      model: model ?? '',
      messages: some,
      add_generation_prompt,
      chat_template_kwargs,
    };
    return sends_pictures && showsPictures(some)
      ? await pictureRoute(service).render(asked, signal)
      : { token_ids: await service.renderChat(asked, signal), places: [] };
  };
  const { token_ids: whole, places } = await render(chat.length);
  check(whole.length);
  const before = await eachInTurn(chat.slice(1), async (_, k) => {
    try {
      return lengthWithin(whole, (await render(k + 1)).token_ids);
    } catch (error) {
      // As templates do that want a message of role user.
      if (isTemplateRefusal(error)) return null;
      throw error;
    }
  });
  return { ids: splitRendering(whole, [...before, whole.length]), places };
}

/** In a prompt of thousands of messages, each request contains all earlier ones, so only few are held at once. */
const AT_ONCE = 8;

async function eachInTurn<T, R>(
  items: readonly T[],
  ask: (item: T, k: number) => Promise<R>,
): Promise<R[]> {
  const answers: R[] = [];
  for (let first = 0; first < items.length; first += AT_ONCE) {
    const some = items.slice(first, first + AT_ONCE);
    answers.push(...(await Promise.all(some.map((item, i) => ask(item, first + i)))));
  }
  return answers;
}

/** How many ids of the whole these are the beginning of; null: they are not. */
export const lengthWithin = (whole: readonly number[], ids: readonly number[]): number | null =>
  ids.every((id, i) => id === whole[i]) ? ids.length : null;

/** `lengths[k]`: how many of the ids messages 0…k have. */
export function splitRendering(
  whole: readonly number[],
  lengths: readonly (number | null)[],
): number[][] {
  const grows = lengths.every((length, k) => length !== null && length >= (lengths[k - 1] ?? 0));
  const ends = lengths.map((length, k) =>
    grows ? (length ?? 0) : k === lengths.length - 1 ? whole.length : 0,
  );
  return ends.map((end, k) => whole.slice(ends[k - 1] ?? 0, end));
}
