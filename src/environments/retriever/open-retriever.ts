import { readText } from '../../platform/utf8-text.js';
import { describeError } from '../../platform/errors.js';
import { type Bm25Index, createBm25Builder } from './bm25.js';
import { readCorpus } from './corpus.js';
import type { Retriever } from './retriever.js';
import type { RetrieverSettings } from './settings.js';
import { createTextStore } from './text-store.js';
import { createWordpiece, type Tokenize, tokenizeAlphanumeric } from './tokenizers.js';

/** The settings that determine an index; the others only affect queries. */
type IndexSettings = Pick<
  RetrieverSettings,
  'corpus' | 'text_column' | 'k1' | 'b' | 'tokenizer' | 'vocabulary'
>;

interface Indexed {
  index: Bm25Index;
  textOf: (id: number) => string;
}

export interface RetrieversContext {
  /** The settings of an environment by its name; undefined if there is none. */
  settingsOf: (name: string) => { kind: string } | undefined;
  /** Reports to the operator what was built. */
  report: (message: string) => void;
}

/**
 * Opens the retrievers of a worker by their environments' names. Those with the same corpus and index settings share
 * one index, which is built when the first of them is opened.
 */
export function createRetrievers({ settingsOf, report }: RetrieversContext) {
  const indexes = new Map<string, Promise<Indexed>>();
  return async (name: string): Promise<Retriever> => {
    const settings = settingsOf(name);
    if (!isRetriever(settings)) {
      const got = settings === undefined ? 'there is none' : `it is of kind ${settings.kind}`;
      throw new Error(`expected an environment ${name} of kind retriever, ${got}`);
    }
    const { corpus, text_column, k1, b, tokenizer, vocabulary } = settings;
    const key = JSON.stringify([corpus, text_column, k1, b, tokenizer, vocabulary]);
    const opening = indexes.get(key) ?? build(settings, report);
    indexes.set(key, opening);
    return retrieverOf(await opening, settings.num_results);
  };
}

const isRetriever = (settings: { kind: string } | undefined): settings is RetrieverSettings =>
  settings?.kind === 'retriever';

function retrieverOf({ index, textOf }: Indexed, usual: number): Retriever {
  return {
    document_count: index.document_count,
    search: (query, { num_results = usual } = {}) =>
      index.rank(query, num_results).map(({ id, score }) => ({ id, text: textOf(id), score })),
  };
}

async function build(
  settings: IndexSettings,
  report: RetrieversContext['report'],
): Promise<Indexed> {
  const began = performance.now();
  const builder = createBm25Builder({ ...settings, tokenize: await createTokenizer(settings) });
  const texts = createTextStore();
  for await (const text of readCorpus(settings.corpus, settings.text_column)) {
    builder.add(text);
    texts.add(text);
  }
  const index = builder.finish();
  if (index.document_count === 0)
    throw new Error(`${settings.corpus}: expected documents, got none`);
  const megabytes = Math.ceil((index.bytes + texts.bytes()) / 2 ** 20);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  report(
    `indexed ${settings.corpus}: ${index.document_count} documents, ${index.term_count} terms, ${megabytes} MiB, ${seconds} s`,
  );
  return { index, textOf: texts.get };
}

async function createTokenizer({ tokenizer, vocabulary }: IndexSettings): Promise<Tokenize> {
  if (tokenizer === 'alphanumeric' || vocabulary === undefined) return tokenizeAlphanumeric;
  const text = await readText(vocabulary).catch((error: unknown) => {
    throw new Error(`cannot read the vocabulary: ${describeError(error)}`, { cause: error });
  });
  const pieces = new Set(text.split('\n').map((line) => line.replace(/\r$/, '')));
  if (pieces.has('[UNK]')) return createWordpiece(pieces);
  throw new Error(`${vocabulary}: expected one word piece per line, among them [UNK]`);
}
