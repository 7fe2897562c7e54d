import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createAppender, FILES, type IndexFacts, readAt } from './index-files.js';
import type { Tokenize } from './tokenizers.js';

interface BuilderOptions {
  folder: string;
  tokenize: Tokenize;
  /** So many postings are in memory, 20 bytes each; the others are in a file until the end. */
  most_postings?: number;
}

const MOST_POSTINGS = 2 ** 22;
const TEXTS_AT_ONCE = 2 ** 20;

/** Builds a kept index. Its memory is `most_postings`, the terms, and at its end 28 bytes a document. */
export function createIndexBuilder({
  folder,
  tokenize,
  most_postings = MOST_POSTINGS,
}: BuilderOptions) {
  const vocabulary = new Map<string, number>();
  /** Per term, how many documents have it. */
  const frequencies: number[] = [];
  const lengths: number[] = [];
  const texts = createTextWriter(path.join(folder, FILES.texts));
  const blocks = createBlocks(path.join(folder, 'blocks.tmp'), most_postings);
  const idOf = (term: string): number => {
    const known = vocabulary.get(term);
    if (known !== undefined) return known;
    const id = vocabulary.size;
    // A copy: a part of a string keeps the whole alive, here a document for each of its new terms.
    vocabulary.set(Buffer.from(term).toString(), id);
    frequencies.push(0);
    return id;
  };
  return {
    add: (text: string): void => {
      const tokens = tokenize(text);
      for (const [term, count] of countEach(tokens)) {
        const id = idOf(term);
        frequencies[id] = at(frequencies, id) + 1;
        blocks.add({ term: id, document: lengths.length, count });
      }
      lengths.push(tokens.length);
      texts.add(text);
    },
    documents: () => lengths.length,
    finish: (): void => {
      const starts = startsOf(frequencies);
      const text_starts = texts.finish();
      const write = (name: string, values: NodeJS.TypedArray): void => {
        const file = createAppender(path.join(folder, name));
        file.append(values);
        file.close();
      };
      write(FILES.starts, starts);
      write(FILES.lengths, Uint32Array.from(lengths));
      write(FILES.text_starts, Float64Array.from(text_starts));
      write(FILES.terms, Buffer.from([...vocabulary.keys()].join('\n')));
      const postings = createAppender(path.join(folder, FILES.postings));
      for (const part of blocks.merged(starts)) postings.append(part);
      postings.close();
      blocks.remove();
      const facts: IndexFacts = {
        documents: lengths.length,
        terms: vocabulary.size,
        postings: starts.at(-1) ?? 0,
        text_bytes: text_starts.at(-1) ?? 0,
      };
      writeFileSync(path.join(folder, FILES.facts), `${JSON.stringify(facts)}\n`);
    },
  };
}

export function countEach(tokens: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return counts;
}

function startsOf(frequencies: readonly number[]): Float64Array {
  const starts = new Float64Array(frequencies.length + 1);
  for (const [term, frequency] of frequencies.entries())
    starts[term + 1] = at(starts, term) + frequency;
  return starts;
}

/** For indexes that are known to exist. */
const at = (values: ArrayLike<number>, place: number): number => values[place] ?? 0;

function createTextWriter(file: string) {
  const written = createAppender(file);
  const starts = [0];
  let pending: Buffer[] = [];
  let length = 0;
  const flush = (): void => {
    written.append(Buffer.concat(pending));
    pending = [];
    length = 0;
  };
  return {
    add: (text: string): void => {
      const encoded = Buffer.from(text);
      pending.push(encoded);
      length += encoded.length;
      starts.push(at(starts, starts.length - 1) + encoded.length);
      if (length >= TEXTS_AT_ONCE) flush();
    },
    finish: (): number[] => {
      flush();
      written.close();
      return starts;
    },
  };
}

/** Postings of consecutive documents, by term. */
interface Block {
  /** In the file: for each term that was known then, its first posting; one more at the end. */
  starts_at: number;
  terms: number;
  postings_at: number;
}

/** Blocks of up to `most` follow each other in the order of documents, so a term's postings are those of its blocks, one by one. */
function createBlocks(file: string, most: number) {
  const written = createAppender(file);
  const blocks: Block[] = [];
  const terms = new Uint32Array(most);
  const documents = new Uint32Array(most);
  const counts = new Uint32Array(most);
  let pending = 0;
  let known = 0;
  const flush = (): void => {
    if (pending === 0) return;
    const { starts, postings } = byTerm(
      { terms: terms.subarray(0, pending), documents, counts },
      known,
    );
    const starts_at = written.append(starts);
    blocks.push({ starts_at, terms: known, postings_at: written.append(postings) });
    pending = 0;
  };
  return {
    add: (posting: { term: number; document: number; count: number }): void => {
      terms[pending] = posting.term;
      documents[pending] = posting.document;
      counts[pending] = posting.count;
      pending += 1;
      known = Math.max(known, posting.term + 1);
      if (pending === most) flush();
    },
    /** All postings in the order of the index, in parts of `most`, or of one term that has more. */
    merged: function* (starts: Float64Array): Generator<Uint32Array> {
      flush();
      for (let first = 0; first < starts.length - 1;) {
        let end = first + 1;
        while (end < starts.length - 1 && at(starts, end + 1) - at(starts, first) <= most) end += 1;
        yield mergedPart({ first, end, starts, blocks, file: written.file });
        first = end;
      }
    },
    remove: (): void => {
      written.close();
      rmSync(file);
    },
  };
}

function byTerm(
  { terms, documents, counts }: Record<'terms' | 'documents' | 'counts', Uint32Array>,
  term_count: number,
) {
  const starts = new Uint32Array(term_count + 1);
  for (const term of terms) starts[term + 1] = at(starts, term + 1) + 1;
  for (let term = 0; term < term_count; term++)
    starts[term + 1] = at(starts, term + 1) + at(starts, term);
  const next = starts.slice();
  const postings = new Uint32Array(2 * terms.length);
  for (const [i, term] of terms.entries()) {
    const place = at(next, term);
    next[term] = place + 1;
    postings[2 * place] = at(documents, i);
    postings[2 * place + 1] = at(counts, i);
  }
  return { starts, postings };
}

interface Part {
  /** Its terms: from `first`, without `end`. */
  first: number;
  end: number;
  starts: Float64Array;
  blocks: readonly Block[];
  file: number;
}

function mergedPart({ first, end, starts, blocks, file }: Part): Uint32Array {
  const origin = at(starts, first);
  const merged = new Uint32Array(2 * (at(starts, end) - origin));
  const next = starts.slice(first, end).map((start) => 2 * (start - origin));
  for (const { starts_at, terms, postings_at } of blocks) {
    const last = Math.min(end, terms);
    if (last <= first) continue;
    const own = new Uint32Array(last - first + 1);
    readAt(file, { into: own, position: starts_at + 4 * first });
    const start = at(own, 0);
    const postings = new Uint32Array(2 * (at(own, last - first) - start));
    readAt(file, { into: postings, position: postings_at + 8 * start });
    for (let term = 0; term < last - first; term++) {
      const from = 2 * (at(own, term) - start);
      const to = 2 * (at(own, term + 1) - start);
      merged.set(postings.subarray(from, to), at(next, term));
      next[term] = at(next, term) + to - from;
    }
  }
  return merged;
}
