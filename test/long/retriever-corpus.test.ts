/** 100,000 documents: upstream's recorded answers to 200 queries, from each format. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createRetrievers } from '../../src/environments/retriever/open-retriever.js';
import { RetrieverSettings } from '../../src/environments/retriever/settings.js';
import { isNear, readGolden } from '../environments/goldens.js';
import { documentsOf, queriesOf, WRITERS } from '../environments/retriever/large-corpus.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

interface Golden {
  corpus_sha256: string;
  num_results: number;
  /** For each query, the best documents with their scores. */
  found: { ids: number[]; scores: number[] }[];
}

const golden = readGolden('retriever-large', 'bm25_100000') as Golden;
const DOCUMENTS = 100_000;
const queries = queriesOf(golden.found.length);
let texts: string[] = [];
let directory: TemporaryDirectory;

before(async () => {
  directory = await makeTemporaryDirectory('large-corpus');
  texts = documentsOf(DOCUMENTS);
  const lines = path.join(directory.path, 'corpus.jsonl');
  await WRITERS['jsonl']!(lines, texts);
  const hash = createHash('sha256').update(await readFile(lines));
  assert.equal(
    hash.digest('hex'),
    golden.corpus_sha256,
    'upstream was asked about other documents',
  );
});
after(() => directory.remove());

describe('a corpus of 100,000 documents', () => {
  for (const format of Object.keys(WRITERS)) {
    test(`as ${format} gives upstream’s answers to 200 queries`, async () => {
      const corpus = path.join(directory.path, `corpus.${format}`);
      if (format !== 'jsonl') await WRITERS[format]!(corpus, texts);
      const settings = RetrieverSettings.parse({
        kind: 'retriever',
        corpus,
        num_results: golden.num_results,
      });
      const folder = path.join(directory.path, 'kept');
      const reports: string[] = [];
      const open = createRetrievers({
        settingsOf: () => settings,
        folder,
        env: {},
        report: (said) => void reports.push(said),
      });
      const retriever = await open('wiki');
      assert.match(reports.join(), /^indexed .*: 100000 documents/);
      assert.equal(queries.length, 200);
      for (const [at, query] of queries.entries()) {
        const found = retriever.search(query);
        const { ids, scores } = golden.found[at]!;
        const near = (rank: number): boolean =>
          isNear(found[rank]!.score, { expected: scores[rank]!, relative: 1e-5 });
        for (const [rank, id] of ids.entries()) {
          assert.ok(near(rank), `${query} #${rank}: ${found[rank]!.score}`);
          // Scores that are one in float32 come in any order there.
          const isAlone = scores.every(
            (other, k) => k === rank || !isNear(other, { expected: scores[rank]!, relative: 1e-6 }),
          );
          if (isAlone && rank < ids.length - 1)
            assert.equal(found[rank]!.id, id, `${query} #${rank}`);
          assert.equal(found[rank]!.text, texts[found[rank]!.id]);
        }
      }
    });
  }
});
