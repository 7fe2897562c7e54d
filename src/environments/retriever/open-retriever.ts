import { readText } from '../../platform/utf8-text.js';
import { describeError } from '../../platform/errors.js';
import { pathOf } from '../../platform/hub.js';
import { keptIndex } from './kept-index.js';
import type { Retriever } from './retriever.js';
import { createRank } from './search.js';
import type { RetrieverSettings } from './settings.js';
import { createWordpiece, type Tokenize, tokenizeAlphanumeric } from './tokenizers.js';

type Indexed = Awaited<ReturnType<typeof open>>;

interface RetrieversContext {
  /** The settings of an environment by its name; undefined if there is none. */
  settingsOf: (name: string) => { kind: string } | undefined;
  folder: string;
  env: NodeJS.ProcessEnv;
  report: (message: string) => void;
}

/** Opens retrievers by their environments' names. Those of the same corpus share one index. */
export function createRetrievers({ settingsOf, ...context }: RetrieversContext) {
  const indexes = new Map<string, Promise<Indexed>>();
  return async (name: string): Promise<Retriever> => {
    const settings = settingsOf(name);
    if (!isRetriever(settings)) {
      const got = settings === undefined ? 'there is none' : `it is of kind ${settings.kind}`;
      throw new Error(`expected an environment ${name} of kind retriever, ${got}`);
    }
    const { corpus, split, text_column, tokenizer, vocabulary } = settings;
    const key = JSON.stringify([corpus, split, text_column, tokenizer, vocabulary]);
    const opening = indexes.get(key) ?? open(settings, context);
    indexes.set(key, opening);
    return retrieverOf(await opening, settings);
  };
}

const isRetriever = (settings: { kind: string } | undefined): settings is RetrieverSettings =>
  settings?.kind === 'retriever';

function retrieverOf({ index, tokenize }: Indexed, settings: RetrieverSettings): Retriever {
  const rank = createRank(index, { ...settings, tokenize });
  return {
    document_count: index.facts.documents,
    search: (query, { num_results = settings.num_results } = {}) =>
      rank(query, num_results).map(({ id, score }) => ({ id, text: index.textOf(id), score })),
  };
}

async function open(
  given: RetrieverSettings,
  { folder, env, report }: Omit<RetrieversContext, 'settingsOf'>,
) {
  const began = performance.now();
  const settings = await withPaths(given, env);
  const tokenize = await createTokenizer(settings);
  const index = await keptIndex({ settings, tokenize, folder });
  const { documents, terms } = index.facts;
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  report(
    `${index.was_kept ? 'opened the kept index of' : 'indexed'} ${given.corpus}: ${documents} documents, ${terms} terms, ${Math.ceil(index.bytes / 2 ** 20)} MiB, ${seconds} s`,
  );
  return { index, tokenize };
}

async function withPaths(
  settings: RetrieverSettings,
  env: NodeJS.ProcessEnv,
): Promise<RetrieverSettings> {
  const { corpus, vocabulary } = settings;
  return {
    ...settings,
    corpus: await pathOf(corpus, env),
    ...(vocabulary !== undefined && { vocabulary: await pathOf(vocabulary, env) }),
  };
}

async function createTokenizer({
  tokenizer,
  vocabulary,
}: Pick<RetrieverSettings, 'tokenizer' | 'vocabulary'>): Promise<Tokenize> {
  if (tokenizer === 'alphanumeric' || vocabulary === undefined) return tokenizeAlphanumeric;
  const text = await readText(vocabulary).catch((error: unknown) => {
    throw new Error(`cannot read the vocabulary: ${describeError(error)}`, { cause: error });
  });
  const pieces = new Set(text.split('\n').map((line) => line.replace(/\r$/, '')));
  if (pieces.has('[UNK]')) return createWordpiece(pieces);
  throw new Error(`${vocabulary}: expected one word piece per line, among them [UNK]`);
}
