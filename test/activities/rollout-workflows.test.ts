/** Planning a batch whose slices play its rollouts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FailureSeen } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { scriptedAgent } from '../fakes/scripted-agent.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { BATCH, sampleOf } from '../fakes/temporary-store.js';

test('a batch of agents without workflows of their own says so to its slices, and other tasks are refused', async (t) => {
  const { environment } = scriptedAgent([]);
  const environments = { task: environment, puzzle: scriptedEnvironment([]) };
  const bench = await activityBench(t, { environments });
  const extra_env_info = { agent: 'a', task_index: 0, rollout_index: 0, row: '{}' };
  const agents = { message_log: [], task_name: 'task', extra_env_info };
  const played = JSON.parse(sampleOf('go', { task_name: 'puzzle' })) as object;
  const plan = (...samples: object[]) =>
    bench.run('planBatch', {
      input: { samples, rollout_workflows: false },
      workflow_id: BATCH,
    });
  const { error } = await plan(agents, played);
  assert.equal((error as FailureSeen).type, 'InvalidBatchRequest');
  assert.match(
    (error as FailureSeen).message,
    /rollout_workflows: expected true, since task "puzzle" is not played by an agent; got false$/,
  );
  const { result } = await plan(agents);
  assert.deepEqual([result?.plays_rollouts, result?.slices], [true, [{ first: 0, last: 0 }]]);
  assert.equal((await bench.store.findRequest(BATCH))?.rollout_workflows, false);
});
