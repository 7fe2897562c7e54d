/** A silence of this length may hide a change of weights; most changes take longer. */
const SILENCE_MS = 500;

export interface VersionChange {
  version: string | null;
  /** The first token, by its offset in the turn, that counts as sampled from the other weights. */
  from: number;
  /** The stream was silent there, and the question was sent right afterwards. */
  is_certain: boolean;
}

export interface VersionWatch {
  /** Reports that this many tokens came. */
  arrived: (count: number) => void;
  /** No more tokens come. Resolves when all that can be known is known. */
  ended: () => Promise<void>;
}

interface Gap {
  from: number;
  ms: number;
}

/**
 * Follows the version of a stream whose tokens do not name it. It asks after each silence and at the end, never per
 * chunk. A change is placed where the stream was silent for longest since the previous question, because that is where
 * the engine was held. If the replica does not answer, the labels stay.
 */
export function watchVersion({
  version,
  offset,
  ask,
  at_silences,
  changed,
  now = () => performance.now(),
}: {
  /** The version before the request. */
  version: string | null;
  /** Offset in the turn of the first token to come. */
  offset: number;
  ask: () => Promise<string | null>;
  /** Otherwise only at the end. */
  at_silences: boolean;
  changed: (change: VersionChange) => Promise<void>;
  now?: () => number;
}): VersionWatch {
  let known = version;
  let count = offset;
  let last_at = now();
  let longest: Gap = { from: offset, ms: 0 };
  let asking: Promise<void> = Promise.resolve();

  const look = async (): Promise<void> => {
    const gap = longest;
    longest = { from: count, ms: 0 };
    try {
      const answer = await ask();
      if (answer === known) return;
      known = answer;
      await changed({ version: answer, from: gap.from, is_certain: gap.ms >= SILENCE_MS });
    } catch {
      if (gap.ms >= longest.ms) longest = gap;
    }
  };

  return {
    arrived: (tokens) => {
      const at = now();
      const ms = at - last_at;
      last_at = at;
      if (ms >= longest.ms) longest = { from: count, ms };
      count += tokens;
      if (at_silences && ms >= SILENCE_MS) asking = asking.then(look);
    },
    ended: async () => {
      await asking;
      if (count > longest.from) await look();
    },
  };
}
