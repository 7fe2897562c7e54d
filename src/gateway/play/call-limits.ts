import type { Entry } from '../../model/journal.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import type { AgentLimits, AgentJournal } from '../agent-session.js';
import type { Refusal } from '../request/refusals.js';
import { limitReached } from '../request/refusals.js';

/** What a rollout may ask for, and what the journal says of requests that got no call. */

const tokensOf = ({ assistant_tokens, open }: Trajectory): number => {
  let tokens = assistant_tokens;
  for (const { token_ids } of open.values()) tokens += token_ids.length;
  return tokens;
};

/** Why there is no further call; null: there may be one. */
export function limitOf(
  trajectory: Trajectory,
  { limits, begins }: { limits: AgentLimits; begins: boolean },
): Refusal | null {
  const { calls, sampled_tokens, sequences } = limits;
  if (calls !== null && trajectory.calls.length >= calls) return limitReached('calls', calls);
  if (sampled_tokens !== null && tokensOf(trajectory) >= sampled_tokens)
    return limitReached('sampled_tokens', sampled_tokens);
  if (sequences === null || !begins) return null;
  const begun = trajectory.calls.filter(({ line }) => line.cause !== undefined).length;
  return begun >= sequences ? limitReached('sequences', sequences) : null;
}

const LINE_EACH_MS = 60_000;

export type WriteRefused = (
  refused: Omit<Extract<Entry, { kind: 'refused' }>, 'kind'>,
) => Promise<void>;

/**
 * Writes one line for each key and minute, since programs ask in loops. Behind an answered call a refusal is news again:
 * without its line an exit would not be the limit's.
 */
export function createWriteRefused({
  append,
  trajectory: { lives },
}: Pick<AgentJournal, 'append' | 'trajectory'>): WriteRefused {
  const written = new Map<string, number>();
  return async (refused) => {
    const now = performance.now();
    for (const [key, at] of written) if (now - at >= LINE_EACH_MS) written.delete(key);
    if (written.has(refused.key) && lives.at(-1)?.refusal !== null) return;
    written.set(refused.key, now);
    await append({ kind: 'refused', ...refused });
  };
}
