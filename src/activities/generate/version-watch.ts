/** What is silent for so long may have been held while the weights changed; most changes take longer. */
const SILENCE_MS = 500;

export interface VersionChange {
  version: string | null;
  /** The first token, by its offset in the turn, that is taken for one of the other weights. */
  from: number;
  /** The stream was silent there, and the question was sent right behind. */
  is_certain: boolean;
}

export interface VersionWatch {
  /** So many tokens came. */
  arrived: (count: number) => void;
  /** No more come; resolves when all is known that can be. */
  ended: () => Promise<void>;
}

interface Gap {
  from: number;
  ms: number;
}

/**
 * Follows the weights that a stream is sampled from: no token names its own. The question is put behind each silence
 * and at the end, never per chunk. A change is taken to lie where the stream was silent for longest since the question
 * before: there an engine was held. Who does not answer leaves the labels as they are.
 */
export function watchVersion({
  version,
  offset,
  ask,
  at_silences,
  changed,
  now = () => performance.now(),
}: {
  /** Before the request. */
  version: string | null;
  /** Of the first token to come, in its turn. */
  offset: number;
  ask: () => Promise<string | null>;
  /** Else at the end alone. */
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
