import { countEach } from './index-builder.js';
import type { KeptIndex } from './index-files.js';
import type { Tokenize } from './tokenizers.js';

export interface Ranked {
  /** The document's position, from 0. */
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

/** For indexes that are known to exist. */
const at = (values: Uint32Array | Float64Array, place: number): number => values[place] ?? 0;

interface Selection {
  scores: Float64Array;
  count: number;
}

/** Keeps the `count` best in a heap whose root is the worst of them, so that most documents cost one comparison. */
function bestOf(ids: readonly number[], { scores, count }: Selection): Ranked[] {
  const heap: Ranked[] = [];
  if (count <= 0) return heap;
  for (const id of ids) {
    const score = scores[id] ?? 0;
    const [worst] = heap;
    if (worst === undefined || heap.length < count) pushUp(heap, { id, score });
    else if (score >= worst.score && isWorse(worst, { id, score })) sinkDown(heap, { id, score });
  }
  return heap.sort((a, b) => b.score - a.score || a.id - b.id);
}

const isWorse = (a: Ranked, b: Ranked): boolean =>
  a.score < b.score || (a.score === b.score && a.id > b.id);

function pushUp(heap: Ranked[], added: Ranked): void {
  let place = heap.length;
  while (place > 0) {
    const above = (place - 1) >> 1;
    const parent = heap[above];
    if (parent === undefined || !isWorse(added, parent)) break;
    heap[place] = parent;
    place = above;
  }
  heap[place] = added;
}

/** Puts it in the root's place. */
function sinkDown(heap: Ranked[], added: Ranked): void {
  let place = 0;
  for (;;) {
    const left = heap[2 * place + 1];
    const right = heap[2 * place + 2];
    const isRight = left !== undefined && right !== undefined && isWorse(right, left);
    const child = isRight ? right : left;
    if (child === undefined || !isWorse(child, added)) break;
    heap[place] = child;
    place = 2 * place + (isRight ? 2 : 1);
  }
  heap[place] = added;
}
