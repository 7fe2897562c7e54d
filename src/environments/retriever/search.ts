import { countEach } from './index-builder.js';
import type { KeptIndex } from './index-files.js';
import type { Tokenize } from './tokenizers.js';

export interface Ranked {
  id: number;
  score: number;
}

interface Searched {
  tokenize: Tokenize;
  /** How quickly further occurrences of a term in a document count less. */
  k1: number;
  /** How much longer documents are marked down: 0 not at all, 1 in proportion. */
  b: number;
}

/**
 * BM25 as upstream's retriever computes it: a term of `df` among `n` documents is worth
 * ln((n - df + 0.5) / (df + 0.5) + 1), times tf (k1 + 1) / (tf + k1 (1 - b + b length / average)) if it occurs `tf`
 * times, times how often the query has it. Gives the `count` best, best first; equal scores by id.
 */
export function createRank(
  { facts, vocabulary, lengths, postingsOf }: KeptIndex,
  { tokenize, k1, b }: Searched,
) {
  const { documents } = facts;
  const average = lengths.reduce((total, length) => total + length, 0) / documents;
  // Zero between searches: a search clears only what it has touched.
  const scores = new Float64Array(documents);
  return (query: string, count: number): Ranked[] => {
    const touched: number[] = [];
    for (const [token, times] of countEach(tokenize(query))) {
      const term = vocabulary.get(token);
      if (term === undefined) continue;
      const postings = postingsOf(term);
      const df = postings.length / 2;
      const idf = Math.log((documents - df + 0.5) / (df + 0.5) + 1);
      for (let i = 0; i < postings.length; i += 2) {
        const id = at(postings, i);
        const tf = at(postings, i + 1);
        const damping = k1 * (1 - b + (b * at(lengths, id)) / average);
        const before = at(scores, id);
        if (before === 0) touched.push(id);
        scores[id] = before + times * Math.fround((idf * tf * (k1 + 1)) / (tf + damping));
      }
    }
    const best = bestOf(touched, { scores, count: Math.min(count, documents) });
    for (let id = 0; best.length < count && id < documents; id++)
      if (at(scores, id) === 0) best.push({ id, score: 0 });
    for (const id of touched) scores[id] = 0;
    return best;
  };
}

const at = (values: Uint32Array | Float64Array, place: number): number => values[place] ?? 0;

/** The best so far, cut to `count` whenever there are twice as many: most documents cost one comparison. */
function bestOf(
  ids: readonly number[],
  { scores, count }: { scores: Float64Array; count: number },
): Ranked[] {
  const best: Ranked[] = [];
  let least = -Infinity;
  const cut = (): void => {
    best.sort((a, b) => b.score - a.score || a.id - b.id).splice(count);
    if (best.length === count) least = best.at(-1)?.score ?? least;
  };
  for (const id of ids) {
    const score = at(scores, id);
    if (score < least) continue;
    best.push({ id, score });
    if (best.length >= 2 * count) cut();
  }
  cut();
  return best;
}
