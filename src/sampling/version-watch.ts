/** A silence of this length may hide a change of weights; most changes take longer. */
const SILENCE_MS = 500;

export interface VersionChange {
  version: string | null;
  /** The first token, by its offset in the turn, that no answer confirms: it is of either version. */
  from: number;
}

/**
 * Follows the version of a stream whose tokens do not name it. It asks after each silence and at the end, never per
 * chunk. Tokens that arrived before a question have the version of the one before it, if both answers are the same.
 * Nothing tells where between two different answers the weights have changed, nor when the last tokens of the earlier
 * ones have arrived, so all later tokens of the stream are of unknown version, and nothing more is asked. If the
 * replica does not answer, the labels stay.
 */
export function watchVersion({
  version,
  offset,
  ask,
  at_silences,
  changed,
  now = () => performance.now(),
}: {
  version: string | null;
  /** Offset in the turn of the first token to come. */
  offset: number;
  ask: () => Promise<string | null>;
  at_silences: boolean;
  changed: (change: VersionChange) => Promise<void>;
  now?: () => number;
}) {
  let count = offset;
  let confirmed = offset;
  let isChanged = false;
  let last_at = now();
  let asking: Promise<void> = Promise.resolve();

  const look = async (): Promise<void> => {
    if (isChanged || count === confirmed) return;
    const arrived = count;
    const answer = await ask().catch(() => undefined);
    if (answer === undefined) return;
    if (answer === version) {
      confirmed = arrived;
      return;
    }
    isChanged = true;
    await changed({ version: answer, from: confirmed });
  };

  return {
    arrived: (tokens: number): void => {
      const at = now();
      const ms = at - last_at;
      last_at = at;
      count += tokens;
      if (at_silences && ms >= SILENCE_MS) asking = asking.then(look);
    },
    /** No more tokens come. Resolves when all that can be known is known. */
    ended: async (): Promise<void> => {
      await asking;
      await look();
    },
  };
}
