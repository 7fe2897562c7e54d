import { Fault } from '../../model/faults.js';
import type { RolloutSettings } from '../../model/journal.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { isTemplateRefusal } from '../../model/turn/template-check.js';
import type { Life } from '../life.js';
import { knows } from '../match/connections.js';
import type { HashedRequest } from '../request/meaning.js';
import type { Limit } from '../request/refusals.js';
import { badRequest, contextFull, limitReached, Refused } from '../request/refusals.js';
import { patiently, withoutPlace } from './patience.js';
import type { Placed, Prompt } from './place-call.js';
import { callEntries, promptFor } from './place-call.js';

/** Returns its number; null: nobody waits any more. Throws a `Refused`, or as `patiently` does. */
export async function beginCall(
  life: Life,
  {
    request,
    signal,
    isAsked,
  }: {
    request: HashedRequest;
    signal: AbortSignal;
    isAsked: () => boolean;
  },
): Promise<number | null> {
  const { playing, tree, times, replays } = life;
  const { journal, generation } = playing;
  const { trajectory } = journal;
  const { calls } = trajectory;
  checkSize(request, generation());
  // A request that gets no answer is not rendered.
  checkLimit(playing, { begins: false });
  const prompt = await patiently(() => rendered(request, life), {
    failed: (fault) => playing.failed(fault, calls.length),
    signal,
    retry_ms: times.retry_ms,
  });
  signal.throwIfAborted();
  if (!isAsked()) return null;
  const { max_seq_len } = generation();
  const tokens = prompt.ids.length;
  if (tokens >= max_seq_len) throw new Refused(contextFull({ tokens, most: max_seq_len }));
  const entries = callEntries(request, {
    ...placesOf(life),
    prompt,
    isKnown: replays ? (number) => knows(life, number) : null,
  });
  const begins = entries.some((entry) => entry.kind === 'call' && entry.cause !== undefined);
  checkLimit(playing, { begins });
  const turn = calls.length;
  // Without a pause in between: each is folded as it is appended.
  const appended = Promise.all(entries.map((entry) => journal.append(entry)));
  tree.grow(calls);
  await appended;
  if (calls[turn] === undefined)
    throw new Fault({
      type: 'StoreFault',
      message: `call ${turn} was not taken: the journal has another writer`,
    });
  return turn;
}

const placesOf = ({ playing: { journal }, tree, life }: Life): Placed => {
  const { calls, materials } = journal.trajectory;
  return { calls, materials, tree, life };
};

/** No tokenizer has many tokens of more characters. Blanks may count for nothing: templates and tokenizers drop some. */
const MOST_CHARACTERS_EACH = 128;

/** A prompt that cannot fit is not sent to an engine, which would take seconds to render it. */
function checkSize(
  { system, messages }: HashedRequest,
  { max_seq_len }: Pick<RolloutSettings, 'max_seq_len'>,
): void {
  const most = max_seq_len * MOST_CHARACTERS_EACH;
  const lengthWith = (count: (text: string) => number): number =>
    messages.reduce(
      (sum, { content, tool_calls = [] }) =>
        tool_calls.reduce((all, { arguments: given }) => all + count(given), sum + count(content)),
      count(system ?? ''),
    );
  if (lengthWith(({ length }) => length) <= most) return;
  const characters = lengthWith((text) => text.replaceAll(/\s+/g, '').length);
  if (characters <= most) return;
  const tokens = Math.ceil(characters / MOST_CHARACTERS_EACH);
  throw new Refused(contextFull({ tokens: `at least ${tokens}`, most: max_seq_len }));
}

const tokensOf = ({ calls }: Trajectory): number =>
  calls.reduce((sum, { sampled }) => sum + sampled.token_ids.length, 0);

/** Throws where there is no further call. `begins`: it would begin a sequence. */
function checkLimit(
  { journal: { trajectory }, settings }: Life['playing'],
  { begins }: { begins: boolean },
): void {
  const { calls, sampled_tokens, sequences } = settings.limits;
  const check = (limit: Limit, { most, has }: { most: number | null; has: () => number }): void => {
    if (most !== null && has() >= most) throw new Refused(limitReached(limit, most));
  };
  check('calls', { most: calls, has: () => trajectory.calls.length });
  check('sampled_tokens', { most: sampled_tokens, has: () => tokensOf(trajectory) });
  const begun = (): number =>
    trajectory.calls.filter(({ line }) => line.cause !== undefined).length;
  if (begins) check('sequences', { most: sequences, has: begun });
}

/** A conversation that the template refuses is the agent's to change. */
async function rendered(request: HashedRequest, life: Life): Promise<Prompt> {
  const { playing, glue } = life;
  const { render, settings } = playing;
  try {
    const { history } = settings;
    return await promptFor(request, { ...placesOf(life), history, glue, render });
  } catch (error) {
    const { max_seq_len } = playing.generation();
    if (error instanceof Fault && error.type === 'PromptTooLong')
      throw new Refused(contextFull({ tokens: `more than ${max_seq_len}`, most: max_seq_len }));
    if (!isTemplateRefusal(error)) throw error;
    throw badRequest(`messages: the policy's chat template refuses them: ${withoutPlace(error)}`, {
      param: 'messages',
    });
  }
}
