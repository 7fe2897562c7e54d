import { createGrowingList } from './growing-list.js';
import type { Tokenize } from './tokenizers.js';

export interface Bm25Settings {
  tokenize: Tokenize;
  /** How quickly further occurrences of a term in a document count less. */
  k1: number;
  /** How much longer documents are marked down: 0 not at all, 1 in proportion. */
  b: number;
}

export interface Bm25Index {
  document_count: number;
  term_count: number;
  /** The size of its postings. */
  bytes: number;
  /** The `count` best, best first; equal scores by id. */
  rank: (query: string, count: number) => Ranked[];
}

/**
 * BM25 as upstream's retriever computes it: a term of `df` among `n` documents is worth
 * ln((n - df + 0.5) / (df + 0.5) + 1), times tf (k1 + 1) / (tf + k1 (1 - b + b length / average)) if it occurs `tf`
 * times, times how often the query has it.
 */
export function createBm25Builder({ tokenize, k1, b }: Bm25Settings) {
  const vocabulary = new Map<string, number>();
  // Per document: its terms and how often each occurs.
  const terms = createGrowingList((length) => new Uint32Array(length));
  const counts = createGrowingList((length) => new Uint32Array(length));
  const ends = createGrowingList((length) => new Float64Array(length));
  const lengths = createGrowingList((length) => new Uint32Array(length));

  return {
    add: (text: string): void => {
      const tokens = tokenize(text);
      for (const [term, count] of countEach(tokens)) {
        terms.push(idOf(term, vocabulary));
        counts.push(count);
      }
      ends.push(terms.length());
      lengths.push(tokens.length);
    },
    finish: (): Bm25Index => {
      const postings = invert({
        terms: terms.values(),
        counts: counts.values(),
        ends: ends.values(),
        lengths: lengths.values(),
        term_count: vocabulary.size,
        k1,
        b,
      });
      const { starts, documents, weights } = postings;
      const document_count = lengths.length();
      return {
        document_count,
        term_count: vocabulary.size,
        bytes: starts.byteLength + documents.byteLength + weights.byteLength,
        rank: createRank({ tokenize, vocabulary, postings, document_count }),
      };
    },
  };
}

function countEach(tokens: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return counts;
}

function idOf(term: string, vocabulary: Map<string, number>): number {
  const known = vocabulary.get(term);
  if (known !== undefined) return known;
  const id = vocabulary.size;
  // A copy: a part of a string keeps the whole alive, here a document for each of its new terms.
  vocabulary.set(Buffer.from(term).toString(), id);
  return id;
}

/** Per term, its documents in order and its worth in each. Term t's range is `starts[t]` to `starts[t + 1]`. */
interface Postings {
  starts: Float64Array;
  documents: Uint32Array;
  weights: Float32Array;
}

interface Forward {
  terms: Uint32Array;
  counts: Uint32Array;
  /** Per document, where its terms end. */
  ends: Float64Array;
  lengths: Uint32Array;
  term_count: number;
  k1: number;
  b: number;
}

function invert({ terms, counts, ends, lengths, term_count, k1, b }: Forward): Postings {
  const starts = new Float64Array(term_count + 1);
  for (const term of terms) starts[term + 1] = at(starts, term + 1) + 1;
  for (let term = 0; term < term_count; term++)
    starts[term + 1] = at(starts, term + 1) + at(starts, term);
  const next = starts.slice();
  const documents = new Uint32Array(terms.length);
  const weights = new Float32Array(terms.length);
  const average = lengths.reduce((total, length) => total + length, 0) / lengths.length;
  let i = 0;
  for (let document = 0; document < lengths.length; document++) {
    const damping = k1 * (1 - b + (b * at(lengths, document)) / average);
    for (; i < at(ends, document); i++) {
      const term = at(terms, i);
      const count = at(counts, i);
      const place = at(next, term);
      next[term] = place + 1;
      documents[place] = document;
      weights[place] = (idf(term) * count * (k1 + 1)) / (count + damping);
    }
  }
  return { starts, documents, weights };

  function idf(term: number): number {
    const df = at(starts, term + 1) - at(starts, term);
    return Math.log((lengths.length - df + 0.5) / (df + 0.5) + 1);
  }
}

/** For indexes that are known to exist. */
const at = (values: Uint32Array | Float64Array | Float32Array, place: number): number =>
  values[place] ?? 0;

interface Searchable extends Pick<Bm25Settings, 'tokenize'> {
  vocabulary: ReadonlyMap<string, number>;
  postings: Postings;
  document_count: number;
}

function createRank({ tokenize, vocabulary, postings, document_count }: Searchable) {
  const { starts, documents, weights } = postings;
  // Zero between searches: a search clears only what it has touched.
  const scores = new Float64Array(document_count);
  return (query: string, count: number): Ranked[] => {
    const touched: number[] = [];
    for (const [token, times] of countEach(tokenize(query))) {
      const term = vocabulary.get(token);
      if (term === undefined) continue;
      const end = at(starts, term + 1);
      for (let i = at(starts, term); i < end; i++) {
        const document = at(documents, i);
        const before = at(scores, document);
        if (before === 0) touched.push(document);
        scores[document] = before + times * at(weights, i);
      }
    }
    const best = bestOf(touched, { scores, count: Math.min(count, document_count) });
    for (let id = 0; best.length < count && id < document_count; id++)
      if (at(scores, id) === 0) best.push({ id, score: 0 });
    for (const id of touched) scores[id] = 0;
    return best;
  };
}

export interface Ranked {
  /** The document's position, from 0. */
  id: number;
  score: number;
}

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
