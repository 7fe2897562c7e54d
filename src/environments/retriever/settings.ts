import path from 'node:path';
import { z } from 'zod';

export const RetrieverSettings = z
  .strictObject({
    kind: z.literal('retriever'),
    /** A JSONL file, one document per line. Relative to temporal.yaml. */
    corpus: z.string().min(1),
    /** The field of a line that holds its text. */
    text_column: z.string().min(1).default('text'),
    /** Documents per search. */
    num_results: z.int().positive().default(10),
    /** BM25's saturation and its length normalisation. */
    k1: z.number().nonnegative().default(1.5),
    b: z.number().min(0).max(1).default(0.75),
    tokenizer: z.enum(['alphanumeric', 'wordpiece']).default('alphanumeric'),
    /** The vocab.txt of `wordpiece`. Relative to temporal.yaml. */
    vocabulary: z.string().min(1).optional(),
  })
  .superRefine(({ tokenizer, vocabulary }, context) => {
    if ((tokenizer === 'wordpiece') === (vocabulary !== undefined)) return;
    const message =
      tokenizer === 'wordpiece'
        ? 'required by tokenizer wordpiece: the path of its vocab.txt'
        : `expected none with tokenizer ${tokenizer}`;
    context.addIssue({ code: 'custom', path: ['vocabulary'], message });
  });
export type RetrieverSettings = z.infer<typeof RetrieverSettings>;

export function resolveRetrieverPaths(
  settings: RetrieverSettings,
  directory: string,
): RetrieverSettings {
  const { corpus, vocabulary } = settings;
  return {
    ...settings,
    corpus: path.resolve(directory, corpus),
    ...(vocabulary !== undefined && { vocabulary: path.resolve(directory, vocabulary) }),
  };
}
