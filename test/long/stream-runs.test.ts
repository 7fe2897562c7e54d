/** A stream of many groups continues in new runs, each with a bounded history, and loses and repeats none. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Worker } from '@temporalio/worker';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { openStreamToTest } from '../../lab/bed/stream.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { idIn } from '../harness/written-history.js';

const QUEUE = 'stream-runs';
/** A group takes six to nine events of its stream, and a run ends at 2,000. */
const STEPS = 16;
const GROUPS_PER_STEP = 32;
const BUNDLE = { codePath: path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js') };

describe('a stream of many groups', () => {
  let bed: Testbed;
  before(async () => {
    bed = await startTestbed('stream-runs');
    const generation = await bed.simulate({ default: { thinking_tokens: 4, seed: 1 } });
    await bed.startWorker({
      task_queue: QUEUE,
      generation,
    });
  });
  after(() => bed.end());

  test('delivers each once, over several runs that replay', async () => {
    const { client } = bed.server;
    const stream = openStreamToTest({
      client: () => client,
      store_root: bed.store_root,
      id: 'many',
      task_queue: QUEUE,
    });
    const size = { samples: 20, num_repeats: 1 };
    await stream.start({
      ...puzzleRequest(size, { max_rollout_turns: 1 }),
      groups_per_step: GROUPS_PER_STEP,
      keep_steps: 3,
    });
    const runs = new Set<string>();
    const groups: number[] = [];
    for (let step = 0; step < STEPS; step++) {
      await stream.step(step, step);
      groups.push(...(await stream.fact(step)).groups);
      runs.add((await stream.handle().describe()).runId);
    }
    assert.equal(new Set(groups).size, STEPS * GROUPS_PER_STEP);
    const { admitted, in_flight, banked } = await stream.progress();
    assert.equal(admitted, groups.length + in_flight + banked);
    await stream.handle().signal('stop');
    await stream.handle().result();
    assert.ok(runs.size >= 2, `${runs.size} runs`);
    assert.equal((await stream.progress()).kept_from, STEPS - 3);
    for (const runId of runs) {
      const handle = client.workflow.getHandle('many', runId);
      const history = await handle.fetchHistory();
      const events = history.events?.length ?? 0;
      assert.ok(events < 4000, `${events} events`);
      await Worker.runReplayHistory({ workflowBundle: BUNDLE }, history, idIn(history));
    }
  });
});
