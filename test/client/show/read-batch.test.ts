/** What a list costs: one reading of each journal's end, whoever played it and however far it is. */
import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { ShowStore } from '../../../src/client/show/read-batch.js';
import { createBatchReader } from '../../../src/client/show/read-batch.js';
import type { JournalLine } from '../../../src/model/journal.js';
import { glanceOf } from '../../../src/model/journal/outcome.js';
import { applyLine, emptyTrajectory } from '../../../src/model/journal/trajectory.js';
import { author } from '../../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf, temporaryStore } from '../../fakes/temporary-store.js';

/** Some 100 kB that nobody has ended, which two attempts have played. */
function unfinished(): string {
  const [a, b] = [author('a'), author('b')];
  const ids = Array.from({ length: 100 }, (_, i) => 1000 + i);
  const trajectory = emptyTrajectory();
  const lines: JournalLine[] = [];
  const put = (...more: JournalLine[]): void => {
    for (const line of more) applyLine(trajectory, line);
    lines.push(...more);
  };
  put(a.claim({ at: 100 }), a.start({ at: 100 }));
  for (let turn = 0; turn < 40; turn++) {
    put(a.chunk({ turn, token_ids: ids }), a.generation({ turn, token_count: 100 }));
    put(a.observation({ turn, at: 101 + turn, glance: glanceOf(trajectory) }));
  }
  put(a.chunk({ turn: 40, token_ids: ids, at: 150 }), b.claim({ at: 160, attempt: 2 }));
  put(b.chunk({ turn: 40, offset: 100, token_ids: ids, at: 161 }));
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}

describe('a list of unfinished rollouts', () => {
  test('reads the end of each journal once, and of none that has not grown', async (t) => {
    const { store, journalFile, elsewhere } = await temporaryStore(t);
    const rows = 50;
    await store.createBatch({
      batch_id: BATCH,
      request: requestOf(),
      samples: Array.from({ length: rows }, () => sampleOf('go')),
    });
    await mkdir(path.dirname(journalFile()), { recursive: true });
    const text = unfinished();
    for (let row = 0; row < rows; row++) await writeFile(journalFile(row), text);
    let ends = 0;
    const counted: ShowStore = {
      ...elsewhere(),
      findEndOrLastLines: (ref) => {
        ends += 1;
        return store.findEndOrLastLines(ref);
      },
      readTrajectory: () => assert.fail('a whole journal is read'),
    };
    const reader = createBatchReader(counted, BATCH);
    const entries = await reader.entries();
    assert.equal(entries.length, rows);
    for (const { turns, tokens, attempts, ended } of entries)
      assert.deepEqual(
        { turns, tokens, attempts, ended },
        { turns: 41, tokens: 4200, attempts: 2, ended: null },
      );
    await reader.entries();
    assert.equal(ends, rows);
  });

  test('keeps nothing of a journal that is gone: another one of the same size is read', async (t) => {
    const { store, journalFile } = await temporaryStore(t);
    await mkdir(path.dirname(journalFile()), { recursive: true });
    const text = unfinished();
    const reader = createBatchReader(store, BATCH);
    const tokens = async () => (await reader.entries()).map((entry) => entry.tokens);
    await writeFile(journalFile(), text);
    assert.deepEqual(await tokens(), [4200]);
    await rm(journalFile());
    assert.deepEqual(await tokens(), []);
    await writeFile(journalFile(), text.replaceAll('"offset":100', '"offset":200'));
    assert.deepEqual(await tokens(), [4300]);
  });
});
