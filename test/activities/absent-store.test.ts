import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { FailureSeen } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { BATCH, sampleOf } from '../fakes/temporary-store.js';

test('a store that fails while a batch is planned is waited for, and its operation and error are reported', async (t) => {
  const bench = await activityBench(t);
  await rm(bench.root, { recursive: true, force: true });
  await writeFile(bench.root, 'no folder');
  const input = { samples: [JSON.parse(sampleOf('go')) as object] };
  const ran = await bench.run('planBatch', { input, workflow_id: BATCH, number: 3 });
  const { type, nonRetryable } = ran.error as FailureSeen;
  assert.deepEqual([type, nonRetryable], ['StoreFault', false]);
  const [told] = ran.waiting;
  assert.deepEqual([ran.waiting.length, told?.service, told?.tries], [1, 'the store', 3]);
  assert.match(told?.message ?? '', /^batch batch: E[A-Z]+: /);
});
