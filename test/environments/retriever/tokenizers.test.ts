import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { createRetrievers } from '../../../src/environments/retriever/open-retriever.js';
import { createWordpiece } from '../../../src/environments/retriever/tokenizers.js';
import { corpusFile, indexFolder, linesOf } from './corpus-file.js';
import { processorTime_ms } from '../../harness/processor-time.js';

const PIECES = [
  '[PAD]',
  '[CLS]',
  '[MASK]',
  '[UNK]',
  '[SEP]',
  'un',
  '##aff',
  '##able',
  'play',
  '##ing',
  'new',
  'e',
  '##e',
  '中',
  '文',
  '$',
  '.',
  '!',
  '##!',
  'a',
  '##b',
  '2',
  '##0',
  'σ',
  '##σ',
];
const tokenize = createWordpiece(new Set(PIECES));

describe('word pieces', () => {
  /** What `BertWordPieceTokenizer` of the `tokenizers` package (0.23.3) answers with these pieces. */
  const cases: [text: string, pieces: string[]][] = [
    ['unaffable', ['un', '##aff', '##able']],
    ['Playing New!!', ['play', '##ing', 'new', '!', '!']],
    ['é $2.0', ['e', '$', '2', '.', '[UNK]']],
    ['e\u0301', ['e']],
    ['中文new', ['中', '文', 'new']],
    ['unplayable', ['[UNK]']],
    ['[SEP]new[sep]', ['[SEP]', 'new', '[UNK]', '[UNK]', '[UNK]']],
    ['a\0b\u200b', ['a', '##b']],
    ['a'.repeat(101), ['[UNK]']],
    ['new\u2028new\xa0new', ['new', 'new', 'new']],
    ['ΣΣ', ['σ', '##σ']],
    ['', []],
  ];
  for (const [text, pieces] of cases) {
    test(`of ${JSON.stringify(text.slice(0, 20))} are those of BERT’s tokenizer`, () => {
      assert.deepEqual(tokenize(text), pieces);
    });
  }

  test('of a megabyte of words that are none are found in a moment', () => {
    const began = processorTime_ms();
    assert.equal(tokenize(`${'ab'.repeat(49)}! `.repeat(10_000)).length, 20_000);
    assert.ok(processorTime_ms() - began < 3000);
  });

  test('find what they share, by the pieces of a vocab.txt', async (t) => {
    const documents = ['new', 'unaffable', 'playing'];
    const settings = await corpusFile(t, { text: linesOf(documents) });
    const vocabulary = `${settings.corpus}.vocab`;
    await writeFile(vocabulary, PIECES.join('\r\n'));
    const wordpiece = { ...settings, tokenizer: 'wordpiece', vocabulary } as const;
    const folder = await indexFolder(t);
    const open = createRetrievers({
      settingsOf: () => wordpiece,
      folder,
      env: {},
      report: () => undefined,
    });
    const [best] = (await open('wiki')).search('PLAYABLE', { num_results: 1 });
    assert.equal(best?.id, 2);
  });

  test('are refused from a file that is no vocabulary, or not there', async (t) => {
    const settings = await corpusFile(t, { text: linesOf(['a']) });
    const folder = await indexFolder(t);
    const openWith = (vocabulary: string): Promise<unknown> =>
      createRetrievers({
        settingsOf: () => ({ ...settings, tokenizer: 'wordpiece', vocabulary }),
        folder,
        env: {},
        report: () => undefined,
      })('wiki');
    await assert.rejects(
      openWith(settings.corpus),
      /expected one word piece per line, among them \[UNK\]$/,
    );
    await assert.rejects(openWith(`${settings.corpus}x`), /cannot read the vocabulary: ENOENT/);
  });
});
