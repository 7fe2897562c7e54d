/** A batch whose id is started again while rollouts of its earlier run are open. */
import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { test } from 'node:test';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { BATCH, REF, sampleOf } from '../fakes/temporary-store.js';

test('it waits no longer for rollouts that do not become fewer: a reset left them behind', async (t) => {
  const open = [3, 3, 2];
  const bench = await activityBench(t, {
    countOpenRollouts: () => Promise.resolve(open.shift() ?? 1),
  });
  const input = { samples: [JSON.parse(sampleOf('go')) as unknown] };
  const plan = () => bench.run('planBatch', { input, workflow_id: BATCH });
  assert.equal((await plan()).error, undefined);
  const began = performance.now();
  assert.equal((await plan()).error, undefined);
  assert.ok(performance.now() - began < 30_000, 'a minute otherwise');
  assert.deepEqual(open, []);
});

test('under restart it removes what was played, replacements too, and keeps request and samples', async (t) => {
  const bench = await activityBench(t);
  const input = { samples: ['go', 'stay'].map((text) => JSON.parse(sampleOf(text)) as unknown) };
  const plan = async (restart: boolean, workflow_input: unknown = input) => {
    const given = { input: workflow_input, workflow_id: BATCH };
    const { result, error } = await bench.run('planBatch', {
      ...given,
      ...(restart && { options: { restart } }),
    });
    if (error !== undefined) throw error as Error;
    return result;
  };
  assert.equal((await plan(true))?.continued, false, 'of a batch that is new');
  const played = [
    [0, 0],
    [1, 0],
    [1, 7],
  ].map(([row = 0, repeat = 0]) => ({ batch_id: BATCH, row, repeat }));
  for (const ref of played) {
    const journal = await bench.store.claim(ref, { activity: 'openRollout' });
    await journal.append(entryOf(author('').start()));
    await journal.commit();
  }
  const outputs = bench.store.outputs(BATCH);
  await outputs.putMetrics({ closed: true });
  const { metrics } = outputs.files;
  assert.equal((await plan(false))?.continued, true);
  assert.equal((await bench.store.listJournals(BATCH)).length, 3, 'an id that continues');
  await outputs.putMetrics({ closed: true });

  const other = { ...input, limit: 1 };
  await assert.rejects(plan(true, other), /limit: the batch of this id has null, got 1/);
  assert.equal((await bench.store.listJournals(BATCH)).length, 3, 'a refused request');

  assert.equal((await plan(true))?.continued, false);
  assert.deepEqual(await bench.store.listJournals(BATCH), []);
  await assert.rejects(stat(metrics), { code: 'ENOENT' });
  assert.equal(await bench.store.sampleCount(BATCH), 2);
  for (const store of [bench.store, bench.elsewhere()])
    assert.equal((await store.readTrajectory(REF)).start, null, 'also where it was cached');
  const again = await bench.store.claim(REF, { activity: 'openRollout' });
  assert.equal(again.trajectory.start, null);
  await again.release();
});
