import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { isMissing } from '../../platform/files.js';

/**
 * A kept index: a folder of little-endian arrays, without k1 and b. `rollout_environment.retriever` writes and reads the
 * same bytes. Postings and texts stay in their files, so a search holds what grows with the number of documents and of
 * terms, and no text.
 */
export const FILES = {
  facts: 'index.json',
  /** A term a line, in the order of their first occurrence. */
  terms: 'terms.txt',
  /** For each term, its first posting; one more at the end. */
  starts: 'starts.f64',
  /** For each term, in the order of documents: a document and how often it has the term. */
  postings: 'postings.u32',
  /** For each document, its number of tokens. */
  lengths: 'lengths.u32',
  /** For each document, the first byte of its text; one more at the end. */
  text_starts: 'text-starts.f64',
  texts: 'texts.utf8',
} as const;

export interface IndexFacts {
  documents: number;
  terms: number;
  postings: number;
  text_bytes: number;
}

export interface KeptIndex {
  facts: IndexFacts;
  bytes: number;
  vocabulary: ReadonlyMap<string, number>;
  lengths: Uint32Array;
  /** A term's postings, valid until the next call: a document and its count, in turn. */
  postingsOf: (term: number) => Uint32Array;
  textOf: (document: number) => string;
}

/** Null: there is none, or not a whole one. */
export async function openIndex(folder: string): Promise<KeptIndex | null> {
  const at = (name: string): string => path.join(folder, name);
  const facts = await readFacts(at(FILES.facts));
  if (facts === null) return null;
  const { documents, terms, postings, text_bytes } = facts;
  const expected: [name: string, bytes: number][] = [
    [FILES.starts, 8 * (terms + 1)],
    [FILES.postings, 8 * postings],
    [FILES.lengths, 4 * documents],
    [FILES.text_starts, 8 * (documents + 1)],
    [FILES.texts, text_bytes],
  ];
  const sizes = await Promise.all(expected.map(([name]) => sizeOf(at(name))));
  if (expected.some(([, bytes], i) => sizes[i] !== bytes)) return null;
  const names = await readFile(at(FILES.terms), 'utf8');
  const vocabulary = new Map<string, number>();
  if (terms > 0) for (const term of names.split('\n')) vocabulary.set(term, vocabulary.size);
  if (vocabulary.size !== terms) return null;
  const starts = readArray(at(FILES.starts), new Float64Array(terms + 1));
  const textStarts = readArray(at(FILES.text_starts), new Float64Array(documents + 1));
  return {
    facts,
    bytes: sizes.reduce<number>((total, size) => total + (size ?? 0), names.length),
    vocabulary,
    lengths: readArray(at(FILES.lengths), new Uint32Array(documents)),
    postingsOf: postingsReader(at(FILES.postings), starts),
    textOf: textReader(at(FILES.texts), textStarts),
  };
}

async function readFacts(file: string): Promise<IndexFacts | null> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as IndexFacts;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null;
    throw error;
  }
}

const sizeOf = (file: string): Promise<number | null> =>
  stat(file).then(
    ({ size }) => size,
    () => null,
  );

/** The file stays open as long as the process: the index may be built anew under its name meanwhile. */
function postingsReader(file: string, starts: Float64Array) {
  const from = openSync(file, 'r');
  let room = new Uint32Array(2048);
  return (term: number): Uint32Array => {
    const start = starts[term] ?? 0;
    const size = 2 * ((starts[term + 1] ?? start) - start);
    if (size > room.length) room = new Uint32Array(Math.max(size, 2 * room.length));
    const postings = room.subarray(0, size);
    readAt(from, { into: postings, position: 8 * start });
    return postings;
  };
}

function textReader(file: string, starts: Float64Array) {
  const from = openSync(file, 'r');
  return (document: number): string => {
    const position = starts[document] ?? 0;
    const bytes = Buffer.allocUnsafe((starts[document + 1] ?? position) - position);
    readAt(from, { into: bytes, position });
    return bytes.toString('utf8');
  };
}

function readArray<T extends NodeJS.TypedArray>(file: string, into: T): T {
  const from = openSync(file, 'r');
  try {
    readAt(from, { into, position: 0 });
  } finally {
    closeSync(from);
  }
  return into;
}

/** One call reads and writes less than 2 GiB. */
const MOST_AT_ONCE = 2 ** 30;

export function readAt(
  file: number,
  { into, position }: { into: NodeJS.TypedArray; position: number },
): void {
  const bytes = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
  for (let done = 0; done < bytes.length;) {
    const most = Math.min(bytes.length - done, MOST_AT_ONCE);
    const read = readSync(file, bytes, done, most, position + done);
    if (read === 0) throw new Error('a file of the kept index ends early; remove the index');
    done += read;
  }
}

export function createAppender(file: string) {
  const to = openSync(file, 'w+');
  let length = 0;
  return {
    file: to,
    append: (values: NodeJS.TypedArray): number => {
      const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      const place = length;
      for (let done = 0; done < bytes.length;)
        done += writeSync(to, bytes, done, Math.min(bytes.length - done, MOST_AT_ONCE));
      length += bytes.length;
      return place;
    },
    close: (): void => {
      closeSync(to);
    },
  };
}
