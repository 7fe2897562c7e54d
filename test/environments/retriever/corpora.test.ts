/** Corpora as `datasets` and pyarrow write them (`test/goldens/retriever-datasets`). */
import assert from 'node:assert/strict';
import { cp, mkdir, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createRetrievers } from '../../../src/environments/retriever/open-retriever.js';
import type { Retriever } from '../../../src/environments/retriever/retriever.js';
import { RetrieverSettings } from '../../../src/environments/retriever/settings.js';
import { cacheOf } from '../../platform/hub-cache.js';
import { indexFolder } from './corpus-file.js';

const GOLDENS = fileURLToPath(new URL('../../goldens/retriever-datasets/', import.meta.url));
const golden = (name: string): string => path.join(GOLDENS, name);

async function open(
  t: TestContext,
  {
    env = {},
    ...settings
  }: { corpus: string; split?: string; text_column?: string; env?: NodeJS.ProcessEnv },
): Promise<Retriever> {
  const all = { kind: 'retriever', text_column: 'body', ...settings };
  const retrievers = createRetrievers({
    settingsOf: () => RetrieverSettings.parse(all),
    folder: await indexFolder(t),
    env,
    report: () => undefined,
  });
  return await retrievers('wiki');
}

const textsIn = (retriever: Retriever): string[] =>
  retriever.search('', { num_results: 100 }).map(({ text }) => text);

const DOCUMENTS = [
  'a cat',
  'a dog and a cat',
  'Größe 😀\u2028',
  '',
  'the cat sat on the mat '.repeat(9),
  'a\nb\tc',
  'nothing else',
];

describe('a corpus', () => {
  const same: [name: string, split?: string][] = [
    ['files/plain.jsonl'],
    ['saved'],
    ['saved', 'train'],
    ['saved-dict', 'train'],
    ['saved-dict/train'],
    ['hub', 'train'],
    ['hub/data', 'train'],
    ...['none', 'gzip', 'zstd', 'brotli', 'lz4', 'v2'].map((name): [string] => [
      `files/${name}.parquet`,
    ]),
    ...['large', 'dictionary', 'view', 'replaced', 'file-format'].map((name): [string] => [
      `files/${name}.arrow`,
    ]),
  ];
  for (const [name, split] of same) {
    test(`as ${name}${split === undefined ? '' : `, split ${split},`} has the documents of the others, and their answers`, async (t) => {
      const retriever = await open(t, {
        corpus: golden(name),
        ...(split !== undefined && { split }),
      });
      assert.deepEqual(textsIn(retriever), DOCUMENTS);
      const plain = await open(t, { corpus: golden('files/plain.jsonl') });
      for (const query of ['cat', 'the dog', 'MAT cat', 'zebra'])
        assert.deepEqual(retriever.search(query), plain.search(query));
    });
  }

  test('is the split that is named', async (t) => {
    for (const corpus of ['saved-dict', 'hub'])
      assert.deepEqual(textsIn(await open(t, { corpus: golden(corpus), split: 'test' })), [
        'a horse',
        'a cow',
      ]);
  });

  test('may have any column of texts', async (t) => {
    for (const corpus of [
      'files/plain.jsonl',
      'saved',
      'files/zstd.parquet',
      'files/file-format.arrow',
    ])
      assert.equal(
        textsIn(await open(t, { corpus: golden(corpus), text_column: 'title' }))[6],
        'Title 6',
      );
  });

  test('of the Hub is found in its cache by name: a repository, a folder or a file', async (t) => {
    const folder = await indexFolder(t);
    const env = { HF_HUB_CACHE: folder, HF_HUB_OFFLINE: '1' };
    await cacheOf(folder, { 'datasets--org--wiki/refs/main': 'c0ffee' });
    await cp(golden('hub'), path.join(folder, 'datasets--org--wiki/snapshots/c0ffee'), {
      recursive: true,
    });
    const repository = 'hf://datasets/org/wiki';
    const [file = ''] = (await readdir(golden('hub/data'))).filter((name) => /^test-/.test(name));
    assert.deepEqual(
      textsIn(await open(t, { corpus: repository, split: 'train', env })),
      DOCUMENTS,
    );
    const test = ['a horse', 'a cow'];
    const inFolder = await open(t, { corpus: `${repository}/data`, split: 'test', env });
    assert.deepEqual(textsIn(inFolder), test);
    assert.deepEqual(textsIn(await open(t, { corpus: `${repository}/data/${file}`, env })), test);
    await assert.rejects(
      open(t, { corpus: 'hf://datasets/org/other', env }),
      /other: expected it in the cache .*; get it by: HF_HUB_OFFLINE=0 hf download org\/other --repo-type dataset --cache-dir /,
    );
  });

  test('without some of its shards is refused', async (t) => {
    const corpus = await folderOf(t, { 'data/train-00001-of-00003.parquet': 'files/none.parquet' });
    await assert.rejects(
      open(t, { corpus }),
      /expected all 3 files of train, as their names say, got 1$/,
    );
  });

  // One case a line.
  // prettier-ignore
  const refused: [what: { corpus: string; split?: string; text_column?: string }, problem: RegExp][] = [
    [{ corpus: 'hub' }, /hub: split: required, because hub has test, train$/],
    [{ corpus: 'saved-dict' }, /split: required, because saved-dict has train, test$/],
    [{ corpus: 'saved-dict', split: 'dev' }, /split: expected train or test, got "dev"$/],
    [{ corpus: 'saved', split: 'test' }, /split: expected train, got "test"$/],
    [{ corpus: 'files/none.parquet', split: 'train' }, /split: expected none for one file, got "train"$/],
    [{ corpus: 'files' }, /files: expected files of one format, got /],
    [{ corpus: 'files/none.parquet', text_column: 'text' }, /none\.parquet: text: expected a string, got a row with id, title, tags, meta, label, body$/],
    [{ corpus: 'saved', text_column: 'text' }, /data-00000-of-00002\.arrow: text: expected a string, got a row with id, title, tags, meta, label, body$/],
    [{ corpus: 'saved', text_column: 'id' }, /\.arrow row 1: id: expected a string, got 0$/],
    [{ corpus: 'files/none.parquet', text_column: 'id' }, /\.parquet row 1: id: expected a string, got 0$/],
    [{ corpus: 'files/null.parquet' }, /null\.parquet row 3: body: expected a string, got null$/],
    [{ corpus: 'files/null.arrow' }, /null\.arrow row 3: body: expected a string, got null$/],
  ];
  for (const [{ corpus, ...settings }, problem] of refused) {
    test(`is refused: ${JSON.stringify({ corpus, ...settings })}`, async (t) => {
      await assert.rejects(open(t, { corpus: golden(corpus), ...settings }), problem);
    });
  }

  test('of compressed batches, which `datasets` never writes, is refused', async (t) => {
    await assert.rejects(open(t, { corpus: golden('files/lz4.arrow') }), /lz4\.arrow: .*compress/i);
  });

  test('with a byte that is no UTF-8 is refused', async (t) => {
    const folder = await indexFolder(t);
    for (const name of ['plain.jsonl', 'none.parquet']) {
      const bytes = await readFile(golden(`files/${name}`));
      for (let at = bytes.indexOf('nothing'); at !== -1; at = bytes.indexOf('nothing'))
        bytes[at] = 0xff;
      await writeFile(path.join(folder, name), bytes);
      await assert.rejects(
        open(t, { corpus: path.join(folder, name) }),
        new RegExp(`${name}: .*expected UTF-8, got 0xff`),
      );
    }
  });

  async function folderOf(t: TestContext, files: Record<string, string>): Promise<string> {
    const folder = await indexFolder(t);
    for (const [name, from] of Object.entries(files)) {
      await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
      if (/^(files|hub)\//.test(from)) await cp(golden(from), path.join(folder, name));
      else await writeFile(path.join(folder, name), from);
    }
    return folder;
  }

  test('is found by the names that `datasets` knows: words for splits, shards of any split, links', async (t) => {
    const one = 'files/none.parquet';
    const other = 'hub/data/test-00000-of-00001.parquet';
    const cases: [files: Record<string, string>, split: string | undefined][] = [
      [{ 'docs.parquet': one }, undefined],
      [{ 'docs.parquet': one, 'docs-test.parquet': other }, 'train'],
      [{ 'validation/0.parquet': one, 'training.parquet': other }, 'validation'],
      [{ 'dev.parquet': one, 'eval.parquet': other }, 'validation'],
      [
        { 'data/wiki-00000-of-00001.parquet': one, 'data/train-00000-of-00001.parquet': other },
        'wiki',
      ],
      [
        {
          'data/train_sft-00000-of-00001.parquet': one,
          'data/train_gen-00000-of-00001.parquet': other,
        },
        'train_sft',
      ],
      [
        {
          'wikipedia-train-00000-of-00001.arrow': 'files/file-format.arrow',
          'dataset_info.json': '{}',
        },
        undefined,
      ],
      [
        { 'train.parquet': one, '.cache/huggingface/train.parquet': other, 'README.md': '' },
        undefined,
      ],
      [{ 'contest.parquet': one }, 'train'],
    ];
    for (const [files, split] of cases) {
      const corpus = await folderOf(t, files);
      const retriever = await open(t, { corpus, ...(split !== undefined && { split }) });
      assert.deepEqual(textsIn(retriever), DOCUMENTS, JSON.stringify(files));
    }
    const corpus = await folderOf(t, { 'blobs/abc': one });
    await mkdir(path.join(corpus, 'snapshot'));
    await symlink('../blobs/abc', path.join(corpus, 'snapshot', 'train-00000-of-00001.parquet'));
    assert.deepEqual(textsIn(await open(t, { corpus: path.join(corpus, 'snapshot') })), DOCUMENTS);
  });

  test('of several configurations is not mixed, and a folder without data, a pointer and a torn file are named', async (t) => {
    const one = 'files/none.parquet';
    const shard = 'train-00000-of-00001.parquet';
    const two = await folderOf(t, { [`en/${shard}`]: one, [`fr/${shard}`]: one });
    await assert.rejects(
      open(t, { corpus: two }),
      /expected the files of train in one folder, got en, fr; name one of them$/,
    );
    assert.deepEqual(textsIn(await open(t, { corpus: path.join(two, 'en') })), DOCUMENTS);
    const none = await folderOf(t, { 'README.md': 'x' });
    await assert.rejects(
      open(t, { corpus: none }),
      /expected files that end in \.jsonl, \.arrow, \.parquet, got none$/,
    );
    const pointer = await folderOf(t, {
      [shard]: 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n',
    });
    await assert.rejects(
      open(t, { corpus: pointer }),
      /got a pointer of Git LFS; run `git lfs pull` there$/,
    );
    for (const name of ['torn.arrow', 'torn.parquet']) {
      const torn = await folderOf(t, { [name]: 'no such thing' });
      await assert.rejects(open(t, { corpus: torn }), new RegExp(`${name}: `));
    }
    const renamed = await folderOf(t, { [shard]: one });
    await rename(path.join(renamed, shard), path.join(renamed, 'documents.arrow'));
    await assert.rejects(
      open(t, { corpus: renamed }),
      /documents\.arrow: expected an Arrow file, as `datasets` saves it$/,
    );
  });
});
