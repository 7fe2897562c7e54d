import type { Sampled } from '../model/journal/open-answers.js';
import { openAnswer } from '../model/journal/open-answers.js';
import type { Call, Tape } from './call.js';

interface Written extends Pick<Tape, 'append' | 'stored'> {
  readonly trajectory: Parameters<typeof openAnswer>[0];
}

export const tapeOf = (journal: Written, turn: number): Tape => ({
  open: () => openAnswer(journal.trajectory, turn),
  append: (line) => journal.append(line),
  stored: () => journal.stored(),
});

type Chunk = Extract<Parameters<Tape['append']>[0], { kind: 'chunk' }>;
/** What a chunk says of the request that writes it. */
export type RequestFacts = Pick<Chunk, 'turn' | 'replica' | 'request_id' | 'logprobs_mode'>;

/**
 * Drops the answer's tokens from an offset on, except for those that are said. `unknown`: nobody knows which weights
 * have sampled them, so those that are said stay without a version.
 */
export type Drop = (from: number, why?: { unknown: true }) => Promise<void>;

/** The only one that drops tokens. */
export const dropper =
  (tape: Tape, { facts, said }: Pick<Call, 'said'> & { facts: RequestFacts }): Drop =>
  async (from, why) => {
    const open = tape.open();
    // Nothing may be said between the question and the line.
    const kept = Math.max(from, Math.min(said(), open.token_ids.length));
    const isKept = kept === open.token_ids.length && open.finish === null;
    if (why?.unknown === true && kept > from)
      await tape.append({
        kind: 'chunk',
        ...writerOf(open, { at: from, facts }),
        offset: from,
        ...partOf(open, { from, to: kept }),
        policy_version: null,
        version_source: 'none',
      });
    else if (!isKept)
      await tape.append({
        kind: 'chunk',
        ...facts,
        offset: kept,
        ...NOTHING,
        policy_version: null,
      });
  };

const NOTHING = { token_ids: [], logprobs: [], text: '' };

function writerOf(
  { segments }: Sampled,
  { at, facts }: { at: number; facts: RequestFacts },
): RequestFacts {
  const segment = segments.find(({ end }) => end > at);
  if (segment === undefined) return facts;
  const { replica, request_id, logprobs_mode } = segment;
  return { turn: facts.turn, replica, request_id, ...(logprobs_mode && { logprobs_mode }) };
}

/** The fields of a chunk that replaces everything from this offset on by these tokens. */
export function partOf(
  { token_ids, logprobs, top_logprobs, text, finish }: Sampled,
  { from, to = token_ids.length }: { from: number; to?: number },
): Pick<Chunk, 'token_ids' | 'logprobs' | 'top_logprobs' | 'text' | 'finish'> {
  return {
    token_ids: token_ids.slice(from, to),
    logprobs: logprobs.slice(from, to),
    ...(top_logprobs.length > 0 && { top_logprobs: top_logprobs.slice(from, to) }),
    // The answer's text is only dropped together with its first token.
    text: from === 0 ? text : '',
    ...(finish !== null && to === token_ids.length && { finish }),
  };
}
