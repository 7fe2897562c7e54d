/** A batch whose id is started again while rollouts of its earlier run are open. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { activityBench } from '../fakes/activity-bench.js';
import { BATCH, sampleOf } from '../fakes/temporary-store.js';

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
