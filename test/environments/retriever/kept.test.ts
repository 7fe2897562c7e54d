import assert from 'node:assert/strict';
import {
  copyFile,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { createIndexBuilder } from '../../../src/environments/retriever/index-builder.js';
import { createRetrievers } from '../../../src/environments/retriever/open-retriever.js';
import type { Retriever } from '../../../src/environments/retriever/retriever.js';
import type { RetrieverSettings } from '../../../src/environments/retriever/settings.js';
import { tokenizeAlphanumeric } from '../../../src/environments/retriever/tokenizers.js';
import { corpusFile, indexFolder, linesOf } from './corpus-file.js';

const DOCUMENTS = ['a cat', 'a dog and a cat', 'nothing', ''];

/** A process of its own: it knows no index but those in the folder. */
async function openIn(
  folder: string,
  settings: RetrieverSettings,
): Promise<{ retriever: Retriever; report: string }> {
  const reports: string[] = [];
  const open = createRetrievers({
    settingsOf: () => settings,
    folder,
    env: {},
    report: (message) => void reports.push(message),
  });
  return { retriever: await open('wiki'), report: reports.join('\n') };
}

async function twoPlaces(t: TestContext) {
  const settings = await corpusFile(t, { text: linesOf(DOCUMENTS) });
  return { settings, folder: await indexFolder(t) };
}

describe('a kept index', () => {
  test('is built once, also for another file of the same content, and answers as before', async (t) => {
    const { settings, folder } = await twoPlaces(t);
    const built = await openIn(folder, settings);
    assert.match(built.report, /^indexed /);
    const copy = `${settings.corpus}.jsonl`;
    await copyFile(settings.corpus, copy);
    for (const corpus of [settings.corpus, copy]) {
      const again = await openIn(folder, { ...settings, corpus, k1: 0.9 });
      assert.match(again.report, /^opened the kept index of .*: 4 documents, 5 terms, 1 MiB/);
      assert.equal(again.retriever.search('cat')[0]?.text, 'a cat');
    }
    const { retriever } = await openIn(folder, settings);
    assert.deepEqual(
      retriever.search('dog cat', { num_results: 4 }),
      built.retriever.search('dog cat', { num_results: 4 }),
    );
    assert.equal((await readdir(folder)).length, 1);
  });

  test('is another one for another content, column or tokenizer', async (t) => {
    const { settings, folder } = await twoPlaces(t);
    await openIn(folder, settings);
    const vocabulary = `${settings.corpus}.vocab`;
    await writeFile(vocabulary, '[UNK]\ncat');
    const words = { ...settings, tokenizer: 'wordpiece', vocabulary } as const;
    assert.match((await openIn(folder, words)).report, /^indexed /);
    await writeFile(vocabulary, '[UNK]\ncat\ndog');
    assert.match((await openIn(folder, words)).report, /^indexed /);
    await writeFile(settings.corpus, linesOf(['a cow', ...DOCUMENTS]));
    const changed = await openIn(folder, settings);
    assert.match(changed.report, /^indexed .*: 5 documents/);
    assert.equal(changed.retriever.search('cow')[0]?.text, 'a cow');
    assert.equal((await readdir(folder)).length, 4);
  });

  test('that is not whole is built again', async (t) => {
    const { settings, folder } = await twoPlaces(t);
    await openIn(folder, settings);
    const [name = ''] = await readdir(folder);
    const files = await readdir(path.join(folder, name));
    assert.equal(files.length, 7);
    for (const file of files) {
      await truncate(path.join(folder, name, file), 1);
      const { retriever, report } = await openIn(folder, settings);
      assert.match(report, /^indexed /, file);
      assert.equal(retriever.search('dog')[0]?.id, 1);
    }
    assert.deepEqual(await readdir(folder), [name]);
  });

  test('that several build at once is one, and leaves nothing else', async (t) => {
    const { settings, folder } = await twoPlaces(t);
    const opened = await Promise.all(Array.from({ length: 5 }, () => openIn(folder, settings)));
    for (const { retriever } of opened) assert.equal(retriever.search('dog')[0]?.id, 1);
    const names = await readdir(folder);
    assert.equal(names.length, 1);
    assert.ok(!(await readdir(path.join(folder, names[0]!))).includes('blocks.tmp'));
  });

  test('leaves nothing of a corpus that cannot be read, nor of builds that were killed a day ago', async (t) => {
    const { settings, folder } = await twoPlaces(t);
    const [abandoned, running] = [1, 2].map((i) => path.join(folder, `abc.building-${i}`));
    for (const place of [abandoned!, running!]) {
      await mkdir(place);
      await writeFile(path.join(place, 'texts.utf8'), 'a');
    }
    const before = new Date(Date.now() - 25 * 60 * 60 * 1000);
    await utimes(abandoned!, before, before);
    await assert.rejects(openIn(folder, { ...settings, text_column: 'body' }), /line 1: body/);
    assert.deepEqual(await readdir(folder), ['abc.building-2']);
  });

  test('is the same, byte for byte, whatever fits in memory while it is built', async (t) => {
    const root = await indexFolder(t);
    const word = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');
    const texts = fc.array(
      fc.array(word, { maxLength: 12 }).map((words) => words.join(' ')),
      {
        minLength: 1,
        maxLength: 12,
      },
    );
    const built = async (documents: string[], most_postings: number) => {
      const folder = await mkdtemp(path.join(root, 'index-'));
      const builder = createIndexBuilder({ folder, tokenize: tokenizeAlphanumeric, most_postings });
      for (const text of documents) builder.add(text);
      builder.finish();
      const names = (await readdir(folder)).sort();
      return Object.fromEntries(
        await Promise.all(
          names.map(async (name) => [
            name,
            (await readFile(path.join(folder, name))).toString('hex'),
          ]),
        ),
      ) as Record<string, string>;
    };
    await fc.assert(
      fc.asyncProperty(texts, fc.integer({ min: 1, max: 20 }), async (documents, most) => {
        assert.deepEqual(await built(documents, most), await built(documents, 1_000_000));
      }),
      { numRuns: 60 },
    );
  });
});
