import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { EnvironmentMessage, Metadata } from '../../../src/environments/environment.js';
import { createRetrieverEnvironment } from '../../../src/environments/retriever/kind.js';
import { createRetrievers } from '../../../src/environments/retriever/open-retriever.js';
import type { Retriever } from '../../../src/environments/retriever/retriever.js';
import type { RetrieverSettings } from '../../../src/environments/retriever/settings.js';
import { said, stepEach, stepOne } from '../../fakes/environment-steps.js';
import { isNear, readGolden, readGoldens } from '../goldens.js';
import { corpusFile, indexFolder, linesOf } from './corpus-file.js';
import { processorTime_ms } from '../../harness/processor-time.js';

interface Searched {
  documents: string[];
  num_results: number;
  k1: number;
  b: number;
}

interface Ranked extends Searched {
  cases: { query: string; scores?: number[]; all_scores?: number[]; error?: object }[];
}

interface Stepped extends Searched {
  message_logs: EnvironmentMessage[][];
  expected: { metadata: Metadata[] };
}

type Test = Pick<TestContext, 'after'>;

async function opener(
  t: Test,
  {
    environments,
    reports = [],
  }: { environments: Record<string, { kind: string }>; reports?: string[] },
) {
  return createRetrievers({
    settingsOf: (name) => environments[name],
    folder: await indexFolder(t),
    env: {},
    report: (message) => void reports.push(message),
  });
}

const openOne = async (t: Test, settings: RetrieverSettings): Promise<Retriever> =>
  (await opener(t, { environments: { wiki: settings } }))('wiki');

async function openGolden(
  t: Test,
  { documents, num_results, k1, b }: Searched,
): Promise<Retriever> {
  return openOne(t, await corpusFile(t, { text: linesOf(documents), num_results, k1, b }));
}

describe('BM25', () => {
  for (const [name, golden] of readGoldens<Ranked>('retriever', 'k1_')) {
    test(`ranks as upstream’s does in ${name}, ties by place`, async (t) => {
      const retriever = await openGolden(t, golden);
      for (const { query, scores, all_scores } of golden.cases) {
        const found = retriever.search(query);
        if (scores === undefined || all_scores === undefined) continue;
        assert.deepEqual(
          found.map(({ id }) => golden.documents[id]),
          found.map(({ text }) => text),
        );
        const inOrder = found.toSorted((x, y) => y.score - x.score || x.id - y.id);
        assert.deepEqual(found, inOrder);
        assert.equal(found.length, scores.length);
        for (const [rank, { id, score }] of found.entries()) {
          assert.ok(
            isNear(score, { expected: scores[rank]!, relative: 1e-5 }),
            `${query} #${rank}: ${score}`,
          );
          assert.ok(
            isNear(score, { expected: all_scores[id]!, relative: 1e-5 }),
            `${query}: document ${id}`,
          );
        }
      }
    });
  }

  test('finds nothing better than the first documents for words that are nowhere, and for no words', async (t) => {
    const settings = await corpusFile(t, { text: linesOf(['a b', 'c', 'd']), num_results: 2 });
    const retriever = await openOne(t, settings);
    const first = [
      { id: 0, text: 'a b', score: 0 },
      { id: 1, text: 'c', score: 0 },
    ];
    assert.deepEqual(retriever.search('zebra'), first);
    assert.deepEqual(retriever.search(''), first);
    assert.deepEqual(
      retriever.search('C').map(({ id }) => id),
      [1, 0],
    );
  });

  test('gives all documents where more are asked for, and as many as one search asks for', async (t) => {
    const { documents } = readGolden('retriever', 'num_results_larger_than_corpus') as Ranked;
    const retriever = await openOne(t, await corpusFile(t, { text: linesOf(documents) }));
    assert.deepEqual(
      retriever.search('apple').map(({ id }) => id),
      [0, 1, 2],
    );
    assert.deepEqual(
      retriever.search('apple', { num_results: 1 }).map(({ id }) => id),
      [0],
    );
    assert.deepEqual(retriever.search('apple', { num_results: 0 }), []);
    assert.equal(retriever.document_count, 3);
  });

  test('finds the same as a sort of everything, search after search', async (t) => {
    const word = (i: number): string => `w${(i * 7919) % 13}`;
    const documents = Array.from({ length: 200 }, (_, i) =>
      Array.from({ length: 1 + (i % 9) }, (_, j) => word(i * i + 3 * j)).join(' '),
    );
    const retriever = await openOne(t, await corpusFile(t, { text: linesOf(documents) }));
    for (const query of ['w1', 'w2 w3 w2', 'w4 w5 w6 w7 w8', 'w1']) {
      const all = retriever.search(query, { num_results: 200 });
      assert.equal(new Set(all.map(({ id }) => id)).size, 200);
      assert.deepEqual(
        all,
        all.toSorted((x, y) => y.score - x.score || x.id - y.id),
      );
      for (const num_results of [1, 2, 7, 50])
        assert.deepEqual(retriever.search(query, { num_results }), all.slice(0, num_results));
    }
  });

  test('keeps texts of every length and script as they are', async (t) => {
    const documents = ['', 'Größe 😀\u2028', 'x'.repeat(5 * 2 ** 20), 'a\nb'];
    const retriever = await openOne(t, await corpusFile(t, { text: linesOf(documents) }));
    assert.deepEqual(
      retriever.search('').map(({ text }) => text),
      documents,
    );
  });
});

describe('the retriever as an environment', () => {
  test('answers as upstream’s does', async (t) => {
    const golden = readGolden('retriever', 'env_step') as Stepped;
    const environment = createRetrieverEnvironment(await openGolden(t, golden));
    const { message_logs, expected } = golden;
    const { metadata } = expected;
    const answer = await stepEach(environment, { logs: message_logs, metadata });
    assert.deepEqual(answer, { ...expected, answers: message_logs.map(() => null) });
  });

  test('answers an empty query, as upstream’s does, and one of unknown words alike', async (t) => {
    const golden = readGolden('retriever', 'env_empty_query') as Searched & { message: string };
    const environment = createRetrieverEnvironment(await openGolden(t, golden));
    const { observation } = await stepOne(environment, { log: [said(golden.message)] });
    const [first, second] = golden.documents;
    assert.equal(
      observation?.content,
      `<result>\n<1>\n${first}\n</1>\n<2>\n${second}\n</2>\n</result>\n`,
    );
    const unknown = await stepOne(environment, { log: [said('<retrieve>zebra</retrieve>')] });
    assert.deepEqual(unknown.observation, observation);
  });

  test('finds no query in tags the wrong way round, nor in an empty log', async (t) => {
    const environment = createRetrieverEnvironment(
      await openOne(t, await corpusFile(t, { text: linesOf(['a']) })),
    );
    for (const log of [[said('</retrieve>a<retrieve>')], []]) {
      const { observation } = await stepOne(environment, { log });
      assert.equal(observation?.content, 'No retrieval query found!');
    }
  });

  test('answers a query of a megabyte in a moment', async (t) => {
    const environment = createRetrieverEnvironment(
      await openOne(t, await corpusFile(t, { text: linesOf(['a']) })),
    );
    const began = processorTime_ms();
    await stepOne(environment, { log: [said(`<retrieve>${'a b'.repeat(350_000)}</retrieve>`)] });
    assert.ok(processorTime_ms() - began < 2000);
  });
});

describe('the retrievers of a worker', () => {
  test('share an index where they search the same corpus in the same way', async (t) => {
    const settings = await corpusFile(t, { text: linesOf(['a a', 'b', 'c']) });
    const reports: string[] = [];
    const environments = {
      one: settings,
      two: { ...settings, num_results: 1 },
      three: { ...settings, k1: 2 },
      four: { ...settings, text_column: 'id' },
    };
    const open = await opener(t, { environments, reports });
    const [one, two] = await Promise.all([open('one'), open('two'), open('one')]);
    assert.equal(reports.length, 1);
    assert.match(reports[0]!, /corpus\.jsonl: 3 documents, 3 terms, \d+ MiB, [\d.]+ s$/);
    assert.deepEqual([one.search('b').length, two.search('b').length], [3, 1]);
    const three = await open('three');
    assert.equal(reports.length, 1);
    assert.notEqual(three.search('a a b')[0]?.score, one.search('a a b')[0]?.score);
    await assert.rejects(
      open('four'),
      /corpus\.jsonl line 1: id \(id 0\): expected a string, got 0$/,
    );
  });

  test('are opened by name; another environment or none is an error', async (t) => {
    const open = await opener(t, { environments: { puzzle: { kind: 'sliding_puzzle' } } });
    await assert.rejects(
      open('puzzle'),
      /expected an environment puzzle of kind retriever, it is of kind sliding_puzzle$/,
    );
    await assert.rejects(
      open('wiki'),
      /expected an environment wiki of kind retriever, there is none$/,
    );
  });

  const bad: [text: string, problem: RegExp][] = [
    [
      '{"text": "a"}\n\n{"text": 5, "id": "x9"}\n',
      /corpus\.jsonl line 3: text \(id "x9"\): expected a string, got 5$/,
    ],
    [
      '{"text": "a"}\n{"txt": "b", "n": 1}',
      /corpus\.jsonl line 2: text: expected a string, got a row with txt, n$/,
    ],
    ['{"text": "a"}\n["b"]\n', /corpus\.jsonl line 2: expected an object, got \["b"\]$/],
    ['{"text": "a"\n', /corpus\.jsonl line 1: expected JSON: /],
    // V8's own words end with another line: "(line 1 column 2)".
    [
      '{"text": "a"}\n{text\n',
      /corpus\.jsonl line 2: expected JSON: column 2: expected a name in double quotes or \}, got "t/,
    ],
    ['\n \n', /corpus\.jsonl: expected documents, got none$/],
  ];
  for (const [text, problem] of bad) {
    test(`refuse a corpus of ${JSON.stringify(text)} and name the line`, async (t) => {
      await assert.rejects(openOne(t, await corpusFile(t, { text })), problem);
    });
  }

  test('name a corpus that is not there', async (t) => {
    const settings = await corpusFile(t, { text: '' });
    await assert.rejects(
      openOne(t, { ...settings, corpus: `${settings.corpus}x` }),
      /corpus\.jsonlx: ENOENT/,
    );
  });

  test('read another column, lines that end like Windows’ and a byte order mark', async (t) => {
    const text = '\ufeff{"body": "a"}\r\n{"body": "b"}\r\n';
    const retriever = await openOne(t, await corpusFile(t, { text, text_column: 'body' }));
    assert.deepEqual(
      retriever.search('b').map((found) => found.text),
      ['b', 'a'],
    );
  });
});
