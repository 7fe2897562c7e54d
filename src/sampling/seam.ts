import type { GenerationSettings } from '../model/generation-settings.js';
import type { Finish, RolloutSettings } from '../model/journal.js';
import type { Sampled } from '../model/journal/open-answers.js';
import { turnsOf } from '../model/journal/calls.js';
import type { Trajectory } from '../model/journal/trajectory.js';

/**
 * An interrupted generation continues from its journalled tokens in another request. The engine sees those tokens as
 * prompt, so the client must find any end or stop string in them.
 */

/**
 * Whether an interrupted turn can continue in another request. What an engine counts or follows within one answer
 * starts anew there: penalties on generated tokens (a repetition penalty counts the prompt, too), words, structures.
 */
export const canContinue = ({
  presence_penalty,
  frequency_penalty,
  bad_words,
  structured_outputs,
}: GenerationSettings): boolean =>
  presence_penalty === 0 &&
  frequency_penalty === 0 &&
  bad_words.length === 0 &&
  structured_outputs === null;

/** Whether the last of these tokens had ended the generation, and the end was lost with the stream. */
export function endOfTokens(
  token_ids: readonly number[],
  {
    stop_token_ids,
    eos_ids,
    room,
  }: { stop_token_ids: readonly number[]; eos_ids: ReadonlySet<number>; room: number },
): Finish | null {
  const last = token_ids.at(-1);
  if (last !== undefined && eos_ids.has(last)) return { finish_reason: 'stop', stop_reason: null };
  if (last !== undefined && stop_token_ids.includes(last))
    return { finish_reason: 'stop', stop_reason: last };
  return token_ids.length >= room ? { finish_reason: 'length', stop_reason: null } : null;
}

/** Tokens that ended a turn of this rollout as neither stop string nor stop token id. No server lists them. */
export function knownEos(trajectory: Trajectory): Set<number> {
  const ended = turnsOf(trajectory).filter(
    ({ generation }) => generation.finish_reason === 'stop' && generation.stop_reason === null,
  );
  return new Set(ended.flatMap(({ token_ids }) => token_ids.slice(-1)));
}

/**
 * The first stop string, in the request's order, that the text contains, and where the text ends with it. Those that
 * end within the first `behind` characters do not count: there is no end before `min_tokens`.
 */
export function findStop(
  text: string,
  { stop_strings, behind = 0 }: { stop_strings: readonly string[]; behind?: number },
): { stop: string; end: number } | null {
  for (const stop of stop_strings) {
    const at = text.indexOf(stop, Math.max(0, behind - stop.length + 1));
    if (at !== -1) return { stop, end: at + stop.length };
  }
  return null;
}

/**
 * How many tokens it takes until their text contains a stop string: an engine that generated them in one request would
 * have stopped there. `holds(count)` checks the text of the first `count` tokens. Only few counts are checked.
 */
export async function firstCountThat(
  holds: (count: number) => Promise<boolean>,
  { from, count }: { from: number; count: number },
): Promise<number> {
  let [without, within] = [from, count];
  // Each check may be a request. Most often it is one of the last.
  for (let back = 1; within - without > 1; back *= 2) {
    const isBracketed = without > from;
    const next = isBracketed
      ? Math.floor((without + within) / 2)
      : Math.max(from + 1, within - back);
    if (await holds(next)) within = next;
    else without = next;
  }
  return within;
}

/** What a decoder writes for bytes that are not a character, or not yet one. */
const NO_CHARACTER = '\uFFFD';

export const endsInCharacter = (text: string): boolean => !text.endsWith(NO_CHARACTER);

/** By hand: a pattern for the end takes quadratic time on long runs within the text. */
export function withoutOpenEnd(text: string): string {
  let end = text.length;
  while (text[end - 1] === NO_CHARACTER) end -= 1;
  return text.slice(0, end);
}

/**
 * The text that an engine has sent for the first `count` tokens. It holds a token's text back until a character ends
 * with it, and never sends what it holds back at the end (vLLM 0.32.0, shown by test/interop).
 */
export async function shownText(
  textOf: (count: number) => Promise<string>,
  count: number,
): Promise<string> {
  let last = count;
  while (last > 0) {
    const text = await textOf(last);
    if (endsInCharacter(text)) return text;
    const { length } = withoutOpenEnd(text);
    const first = await firstCountThat(
      async (n) => withoutOpenEnd(await textOf(n)).length >= length,
      { from: 0, count: last },
    );
    // Characters in one token with the beginning of another one are held back with it.
    last = first < last ? first : last - 1;
  }
  return '';
}

export function withoutSpecials(text: string, special_tokens: readonly string[]): string {
  return special_tokens.reduce((rest, special) => rest.replaceAll(special, ''), text);
}

/** Whether the turn, with what comes `next`, would contain more versions than the batch allows; then it starts over. */
export function spansTooManyVersions(
  { segments }: Sampled,
  {
    settings,
    next,
  }: {
    settings: Pick<RolloutSettings, 'max_version_span'>;
    next: readonly (string | null)[];
  },
): boolean {
  const versions = new Set([...segments.map(({ policy_version }) => policy_version), ...next]);
  const { max_version_span } = settings;
  return segments.length > 0 && max_version_span !== null && versions.size > max_version_span;
}
