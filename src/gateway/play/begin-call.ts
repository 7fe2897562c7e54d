import { Fault } from '../../model/faults.js';
import type { RolloutSettings } from '../../model/journal.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { isTemplateRefusal } from '../../model/turn/template-check.js';
import type { PlayedAgent } from '../agent-session.js';
import { limitOf } from './call-limits.js';
import type { CallTree } from '../match/call-tree.js';
import type { Glue } from './glue.js';
import type { HashedRequest } from '../request/meaning.js';
import { patiently } from './patience.js';
import type { Prompt } from './place-call.js';
import { callEntries, promptFor } from './place-call.js';
import { badRequest, contextFull, Refused } from '../request/refusals.js';

/** A new call, from its request to its line in the journal. */

interface Beginning {
  playing: PlayedAgent;
  life: number;
  tree: CallTree;
  glue: Glue;
  signal: AbortSignal;
  /** Behind a first fault. */
  retry_ms: number;
  /** Somebody still waits for it. */
  isAsked: () => boolean;
  /** Whether a life that replays began this call, or was given it. null: it does not replay. */
  isKnown: ((call: number) => boolean) | null;
}

/** Returns its number; null: nobody waits any more. Throws a `Refused`, or as `patiently` does. */
export async function beginCall(
  request: HashedRequest,
  beginning: Beginning,
): Promise<number | null> {
  const { playing, life, tree, signal, retry_ms, isAsked, isKnown } = beginning;
  const { journal, settings, generation } = playing;
  const { trajectory } = journal;
  checkSize(request, generation());
  // What has no answer is not rendered.
  checkLimit(trajectory, { settings, begins: false });
  const prompt = await patiently(() => rendered(request, beginning), {
    failed: (fault) => playing.failed(fault, trajectory.calls.length),
    signal,
    retry_ms,
  });
  signal.throwIfAborted();
  if (!isAsked()) return null;
  const { max_seq_len } = generation();
  const tokens = prompt.ids.length;
  if (tokens >= max_seq_len) throw new Refused(contextFull({ tokens, most: max_seq_len }));
  const { calls, materials } = trajectory;
  const entries = callEntries(request, { calls, materials, tree, life, prompt, isKnown });
  const begins = entries.some((entry) => entry.kind === 'call' && entry.cause !== undefined);
  checkLimit(trajectory, { settings, begins });
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

/** No tokenizer has many tokens of more characters. Blanks may count for nothing: templates and tokenizers drop some. */
const MOST_CHARACTERS_EACH = 128;

/** What cannot fit is not sent to an engine, which takes seconds for it. */
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

function checkLimit(
  trajectory: Trajectory,
  { settings, begins }: { settings: PlayedAgent['settings']; begins: boolean },
): void {
  const reached = limitOf(trajectory, { limits: settings.limits, begins });
  if (reached !== null) throw new Refused(reached);
}

/** A conversation that the template refuses is the agent's to change. */
async function rendered(
  request: HashedRequest,
  { playing, life, tree, glue }: Beginning,
): Promise<Prompt> {
  const { journal, settings, render } = playing;
  const { calls, materials } = journal.trajectory;
  const { history } = settings;
  try {
    return await promptFor(request, { calls, materials, tree, life, history, glue, render });
  } catch (error) {
    const { max_seq_len } = playing.generation();
    if (error instanceof Fault && error.type === 'PromptTooLong')
      throw new Refused(contextFull({ tokens: `more than ${max_seq_len}`, most: max_seq_len }));
    if (!isTemplateRefusal(error)) throw error;
    const said =
      error.at === null ? error.message : error.message.replaceAll(error.at, 'the engine');
    throw badRequest(`messages: the policy's chat template refuses them: ${said}`, {
      param: 'messages',
    });
  }
}
