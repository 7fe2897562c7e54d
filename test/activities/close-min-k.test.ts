/** Closing a batch whose groups were to have k valid rollouts. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import fc from 'fast-check';
import type { Row } from '../../src/model/results/row.js';
import type { StopReason } from '../../src/model/workflow-safe/stop-reasons.js';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { SETTINGS, author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf } from '../fakes/temporary-store.js';

const a = author('');

/** null: it never started. */
type End = StopReason | null;

async function batchOf(
  t: TestContext,
  { ends, k, overlong = 'keep' }: { ends: End[][]; k: number; overlong?: 'keep' | 'drop' },
): Promise<Bench> {
  const bench = await activityBench(t);
  const completion = { policy: 'min_k', k };
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ num_repeats: ends[0]?.length, completion, overlong }),
    samples: ends.map((_, row) => sampleOf(`prompt ${row}`)),
  });
  for (const [row, repeats] of ends.entries())
    for (const [repeat, end] of repeats.entries()) {
      if (end === null) continue;
      const journal = await bench.store.claim({ batch_id: BATCH, row, repeat }, { activity: 'x' });
      const lines = [
        a.start({ settings: { ...SETTINGS, overlong } }),
        ...wholeTurn(a, { terminated: end === 'terminated' }),
        a.end({ stop_reason: end }),
      ];
      for (const line of lines) await journal.append(entryOf(line));
      await journal.commit();
    }
  return bench;
}

async function rowsOf(file: string): Promise<Row[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as Row);
}
const nameOf = ({ row, repeat }: Pick<Row, 'row' | 'repeat'>): string => `${row}-${repeat}`;
const CLOSE = { batch_id: BATCH, stopped: true };

describe('closing a batch of min_k', () => {
  const ends: End[][] = [
    ['failed', 'terminated', 'stopped', 'max_turns', 'terminated'],
    ['terminated', 'truncated', 'terminated', null, null],
    ['timeout', 'terminated', 'failed', 'failed', null],
  ];

  test('gives each group its first k valid rollouts; those behind them are surplus', async (t) => {
    const bench = await batchOf(t, { ends, k: 2 });
    const { files, counts } = await bench.result('closeBatch', CLOSE);
    const [rows, failures] = [await rowsOf(files.rollouts), await rowsOf(files.failures)];
    assert.deepEqual(rows.map(nameOf), ['0-1', '0-3', '1-0', '1-1', '2-1']);
    const surplus = failures.filter(({ failure }) => failure?.type === 'Surplus');
    assert.deepEqual(surplus.map(nameOf), ['0-4', '1-2']);
    assert.ok(surplus.every(({ stop_reason }) => stop_reason === 'stopped'));
    assert.match(surplus[0]?.failure?.message ?? '', /its group already has 2 rows/);
    assert.deepEqual(counts, {
      requested: 15,
      completed: 5,
      failed: 3,
      timed_out: 1,
      stopped: 6,
      cancelled: 0,
    });
  });

  test('counts no rollout that the request drops as overlong, and says how many there are', async (t) => {
    const bench = await batchOf(t, { ends, k: 2, overlong: 'drop' });
    const { files, metrics, counts } = await bench.result('closeBatch', CLOSE);
    const names = (await rowsOf(files.rollouts)).map(nameOf);
    assert.deepEqual(names, ['0-1', '0-3', '1-0', '1-2', '2-1']);
    assert.equal(metrics['overlong/count'], 1);
    assert.deepEqual([counts.completed, counts.failed], [5, 4]);
  });

  test('by an attempt that continues within a group gives the same', async (t) => {
    const whole = await batchOf(t, { ends, k: 2 });
    const { files } = await whole.result('closeBatch', CLOSE);
    const expected = (await rowsOf(files.rollouts)).map(nameOf);
    for (const stopAt of [3, 4, 7, 8]) {
      const bench = await batchOf(t, { ends, k: 2 });
      const broken = cutAfter(bench, stopAt);
      const first = await bench.run('closeBatch', { input: CLOSE });
      assert.ok(first.error !== undefined);
      broken.mend();
      const { result } = await bench.run('closeBatch', {
        input: CLOSE,
        number: 2,
        heartbeatDetails: first.heartbeats.at(-1),
      });
      const rows = await rowsOf(result!.files.rollouts);
      assert.deepEqual(rows.map(nameOf), expected, `cut at ${stopAt}`);
      assert.equal(result!.counts.requested, 15);
    }
  });

  test('leaves no group with more than k rows, and drops no rollout', async (t) => {
    const end = fc.constantFrom<End>('terminated', 'max_turns', 'failed', 'stopped', null);
    const batch = fc
      .record({ repeats: fc.integer({ min: 1, max: 6 }), k: fc.integer({ min: 1, max: 6 }) })
      .filter(({ repeats, k }) => k <= repeats)
      .chain(({ repeats, k }) =>
        fc.record({
          k: fc.constant(k),
          ends: fc.array(fc.array(end, { minLength: repeats, maxLength: repeats }), {
            minLength: 1,
            maxLength: 3,
          }),
        }),
      );
    await fc.assert(
      fc.asyncProperty(batch, async ({ k, ends }) => {
        const bench = await batchOf(t, { ends, k });
        const { files } = await bench.result('closeBatch', CLOSE);
        const [rows, failures] = [await rowsOf(files.rollouts), await rowsOf(files.failures)];
        assert.equal(rows.length + failures.length, ends.flat().length);
        for (const [row, group] of ends.entries()) {
          const valid = group.flatMap((one, repeat) =>
            one === 'terminated' || one === 'max_turns' ? [`${row}-${repeat}`] : [],
          );
          const own = rows.filter((one) => one.row === row).map(nameOf);
          assert.deepEqual(own, valid.slice(0, k));
        }
      }),
      { numRuns: 15 },
    );
  });
});

/** The store cannot be read at the n-th journal, as when the process dies there. */
function cutAfter({ store }: Bench, n: number): { mend: () => void } {
  const read = store.readTrajectory.bind(store);
  let left = n;
  store.readTrajectory = (ref) => {
    left -= 1;
    return left < 0 ? Promise.reject(new Error('the process dies')) : read(ref);
  };
  return {
    mend: () => {
      store.readTrajectory = read;
    },
  };
}
