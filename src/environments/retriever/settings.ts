import { z } from 'zod';
import { Positive, Word, oneOf, orNull } from '../../model/field-kinds.js';

export const RetrieverSettings = z
  .strictObject({
    kind: z.literal('retriever').describe('BM25 over a corpus'),
    corpus: Word.describe(
      'a JSONL, Arrow or Parquet file, a folder of `datasets`, or a name of the Hub (`hf://…`)',
    ),
    split: orNull(Word).describe('the split of a folder; null: its only one'),
    text_column: Word.default('text').describe('the field or column that holds the text'),
    num_results: Positive.default(10).describe('documents per search'),
    k1: z.number().nonnegative().default(1.5).describe("BM25's saturation"),
    b: z.number().min(0).max(1).default(0.75).describe("BM25's length normalisation"),
    tokenizer: oneOf(['alphanumeric', 'wordpiece'], 'alphanumeric').describe(
      '`alphanumeric`: runs of letters and digits. `wordpiece`: as bert-base-uncased splits text',
    ),
    vocabulary: Word.optional().describe(
      'vocab.txt, which `wordpiece` needs: a path or a name of the Hub',
    ),
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
