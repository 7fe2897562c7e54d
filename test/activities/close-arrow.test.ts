import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { tableFromIPC } from '@uwdata/flechette';
import type { BatchResult } from '../../src/activities/contract.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf } from '../fakes/temporary-store.js';

const a = author('');
const CLOSE = { batch_id: BATCH, stopped: false };
const [ROWS, REPEATS] = [4, 3];

/** Every fifth rollout never started. */
async function played(t: TestContext): Promise<Bench> {
  const bench = await activityBench(t, { formats: ['jsonl', 'arrow'] });
  const samples = Array.from({ length: ROWS }, (_, row) => sampleOf(`prompt ${row}`));
  const request = requestOf({ num_repeats: REPEATS });
  await bench.store.createBatch({ batch_id: BATCH, request, samples });
  for (let at = 0; at < ROWS * REPEATS; at++) {
    if (at % 5 === 4) continue;
    const ref = { batch_id: BATCH, row: Math.floor(at / REPEATS), repeat: at % REPEATS };
    const journal = await bench.store.claim(ref, { activity: 'x' });
    const turn = wholeTurn(a, { reward: at, terminated: true });
    const lines: JournalLine[] = [a.start(), ...turn, a.end({ stop_reason: 'terminated' })];
    for (const line of lines) await journal.append(entryOf(line));
    await journal.commit();
  }
  return bench;
}

interface Files {
  arrow: Buffer;
  jsonl: string;
}

const filesOf = async ({ files }: BatchResult): Promise<Files> => ({
  arrow: await readFile(files.sequences ?? ''),
  jsonl: await readFile(files.rollouts, 'utf8'),
});

describe('closing a batch with rollouts.arrow', () => {
  test('has the rows of rollouts.jsonl in their order, and as many as are counted', async (t) => {
    const bench = await played(t);
    const result = await bench.result('closeBatch', CLOSE);
    const { arrow, jsonl } = await filesOf(result);
    const table = tableFromIPC(arrow);
    const rows = jsonl
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { rollout_id: string; total_reward: number });
    assert.deepEqual(
      [...table.getChild('rollout_id')],
      rows.map((row) => row.rollout_id),
    );
    assert.deepEqual(
      [...table.getChild('total_reward')],
      rows.map((row) => row.total_reward),
    );
    assert.equal(table.numRows, result.counts.completed);
    assert.deepEqual(new Set(table.children[0]?.data.map(({ length }) => length)), new Set([2, 3]));
  });

  for (let at = 1; at < ROWS * REPEATS; at++) {
    test(`that dies at rollout ${at} goes on where its heartbeat says, and writes the same files`, async (t) => {
      const bench = await played(t);
      const expected = await filesOf(await bench.result('closeBatch', CLOSE));
      await bench.store.reopenBatch(BATCH);
      const { store } = bench.dependencies;
      const read = store.readTrajectory.bind(store);
      let folded = 0;
      store.readTrajectory = async (ref) => {
        folded += 1;
        if (folded === at + 1) throw new Error('the machine is gone');
        return await read(ref);
      };
      const dying = await bench.run('closeBatch', { input: CLOSE });
      assert.ok(dying.error !== undefined);
      const heartbeatDetails = dying.heartbeats.at(-1);
      const again = await bench.run('closeBatch', { input: CLOSE, number: 2, heartbeatDetails });
      assert.ok(again.result !== undefined, String(again.error));
      assert.deepEqual(await filesOf(again.result), expected);
    });
  }
});
