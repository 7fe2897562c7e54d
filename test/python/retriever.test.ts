/** A corpus that the worker and a Python environment search: one index, and one answer. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';
import { createRandom } from '../../simulator/random.js';
import { createRetrievers } from '../../src/environments/retriever/open-retriever.js';
import type { RetrievedDocument } from '../../src/environments/retriever/retriever.js';
import { RetrieverSettings } from '../../src/environments/retriever/settings.js';
import { cacheOf } from '../platform/hub-cache.js';
import { corpusFile, indexFolder, linesOf } from '../environments/retriever/corpus-file.js';

const install = trainerInstall(process.env);
const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

const SEARCH = `
import json, sys
from rollout_environment.retriever import Retriever
settings, queries = json.loads(sys.argv[1])
retriever = Retriever(settings.pop("corpus"), **settings)
print(json.dumps([[one._asdict() for one in retriever.search(query)] for query in queries]))
`;

function searchInPython(
  { kind, ...settings }: RetrieverSettings,
  { cache, queries, env = {} }: { cache: string; queries: string[]; env?: NodeJS.ProcessEnv },
): RetrievedDocument[][] {
  assert.equal(kind, 'retriever');
  const asked = JSON.stringify([{ ...settings, cache }, queries]);
  const run = spawnSync(install.python, ['-c', SEARCH, asked], {
    cwd: PYTHON_PACKAGES,
    encoding: 'utf8',
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...env },
  });
  assert.equal(run.status, 0, run.stderr);
  return JSON.parse(run.stdout) as RetrievedDocument[][];
}

/** Words of which some are common; also of other scripts, with accents, and none at all. */
function documentsOf(count: number): string[] {
  const random = createRandom(7);
  const others = [
    'Ünïcode',
    '中文',
    '\u0130x',
    'ΣΑΣ',
    'a\u0301b',
    '!?',
    '😀',
    '\u212a',
    '',
    'x_y',
    '１２',
  ];
  const word = (): string =>
    random() < 0.1
      ? (others[Math.floor(random() * others.length)] ?? '')
      : `w${Math.floor(300 ** random())}`;
  return Array.from({ length: count }, () =>
    Array.from({ length: Math.floor(random() * 30) }, word).join(' '),
  );
}

async function filesIn(folder: string): Promise<Record<string, string>> {
  const [name = ''] = await readdir(folder);
  const files = (await readdir(path.join(folder, name))).sort();
  const contents = await Promise.all(
    files.map(async (file) => [
      `${name}/${file}`,
      (await readFile(path.join(folder, name, file))).toString('hex'),
    ]),
  );
  return Object.fromEntries(contents) as Record<string, string>;
}

async function compared(t: TestContext, settings: RetrieverSettings): Promise<void> {
  const [ours, theirs] = [await indexFolder(t), await indexFolder(t)];
  const queries = [
    'w1',
    'w2 w2 w7 w100',
    'zebra',
    '',
    'ünicode 中 ΣΑΣ kx x',
    'w1 w2 w3 w4 w5 w6 w7 w8',
  ];
  const open = createRetrievers({
    settingsOf: () => settings,
    folder: ours,
    env: {},
    report: () => undefined,
  });
  const retriever = await open('wiki');
  const expected = queries.map((query) => retriever.search(query));
  assert.deepEqual(searchInPython(settings, { cache: theirs, queries }), expected);
  assert.deepEqual(await filesIn(theirs), await filesIn(ours));
  // And each opens what the other has built.
  assert.deepEqual(searchInPython(settings, { cache: ours, queries }), expected);
  assert.equal((await readdir(ours)).length, 1);
  const reports: string[] = [];
  const again = createRetrievers({
    settingsOf: () => settings,
    folder: theirs,
    env: {},
    report: (said) => void reports.push(said),
  });
  const theirRetriever = await again('wiki');
  assert.deepEqual(
    queries.map((query) => theirRetriever.search(query)),
    expected,
  );
  assert.match(reports.join(), /^opened the kept index/);
}

describe('a retriever of the worker and one of Python', { skip }, () => {
  test('have the same index, byte for byte, and give the same answers', async (t) => {
    const documents = documentsOf(400);
    await compared(t, await corpusFile(t, { text: linesOf(documents), k1: 1.2, b: 0.4 }));
  });

  test('also by word pieces', async (t) => {
    const settings = await corpusFile(t, { text: linesOf(documentsOf(200)) });
    const vocabulary = `${settings.corpus}.vocab`;
    const digits = Array.from({ length: 10 }, (_, digit) => [String(digit), `##${digit}`]).flat();
    const pieces = [
      '[UNK]',
      'w',
      '##w',
      ...digits,
      '中',
      '文',
      'unicode',
      'a',
      '##b',
      'σ',
      '##α',
      '##σ',
      'i',
      '##x',
      'x',
      '_',
      'y',
      '!',
    ];
    await writeFile(vocabulary, pieces.join('\n'));
    await compared(t, { ...settings, tokenizer: 'wordpiece', vocabulary });
  });

  test('find a corpus of the Hub by its name, and say the same of one that is not there', async (t) => {
    const [folder, cache] = [await indexFolder(t), await indexFolder(t)];
    await cacheOf(folder, {
      'datasets--org--wiki/refs/main': 'c0ffee',
      'datasets--org--wiki/snapshots/c0ffee/en/all.jsonl': linesOf(['a cat', 'a dog']),
    });
    const env = { HF_HUB_CACHE: folder, HF_HUB_OFFLINE: 'on', HF_ENDPOINT: 'https://mirror' };
    const settingsOf = (name: string): RetrieverSettings =>
      RetrieverSettings.parse({ kind: 'retriever', corpus: `hf://datasets/org/${name}` });
    const open = createRetrievers({ settingsOf, folder: cache, env, report: () => undefined });
    const expected = (await open('wiki/en')).search('dog');
    const asked = { cache, queries: ['dog'], env };
    assert.deepEqual(searchInPython(settingsOf('wiki/en'), asked), [expected]);
    const names = ['wiki@v2%2Fx/fr', 'wiki/en/none.jsonl', 'none', 'wiki/../x'];
    for (const name of names) {
      const { message } = await open(name).then(
        () => assert.fail(`${name} was opened`),
        (error: unknown) => error as Error,
      );
      assert.throws(
        () => searchInPython(settingsOf(name), asked),
        (error: Error) => error.message.includes(message),
      );
    }
  });
});
