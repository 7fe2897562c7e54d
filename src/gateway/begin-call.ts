import { Fault } from '../model/faults.js';
import type { JournalCall } from '../model/journal/calls.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import { isTemplateRefusal } from '../model/turn/template-check.js';
import type { PlayedAgent } from './agent-session.js';
import { limitOf } from './call-limits.js';
import type { CallTree } from './call-tree.js';
import type { Glue } from './glue.js';
import type { HashedRequest } from './meaning.js';
import { patiently } from './patience.js';
import type { Prompt } from './place-call.js';
import { callEntries, promptFor } from './place-call.js';
import { badRequest, contextFull, Refused } from './refusals.js';

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
  /** Of a life that replays: the calls that it began, or was given. null: it does not. */
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
    if (!isTemplateRefusal(error)) throw error;
    const said =
      error.at === null ? error.message : error.message.replaceAll(error.at, 'the engine');
    throw badRequest(`messages: the policy's chat template refuses them: ${said}`, {
      param: 'messages',
    });
  }
}

/** The call that it continues whole: who asks so has that answer. */
export const continuedBy = ({ line }: JournalCall): number | null =>
  line.message === undefined ? line.parent : null;
