/** Engines that are paused or asleep: rollouts that wait for them leave the slots of their worker to others. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { BatchProgress } from '../../src/activities/contract.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { StartedBatch } from '../../lab/bed/batch.js';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { post } from '../harness/sending-trainer.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';

/** Of a worker with so little memory, which is enough for the turns of all of them. */
const MEMORY = '264MiB';
const SLOTS = 8;
const WAITING = SLOTS + 4;

interface Idle {
  url: string;
  queue: string;
  bed: Testbed;
}

/** Takes an engine from those that wait for it; returns how it comes back. */
const IDLE: Record<'paused' | 'asleep', (idle: Idle) => Promise<() => Promise<void>>> = {
  paused: async ({ url }) => {
    await post(`${url}/pause?mode=keep`);
    return () => post(`${url}/resume`);
  },
  asleep: async ({ queue, bed }) => {
    const policy = await connectPolicy(onLoopback(bed.server), {
      service: 'asleep',
      task_queue: queue,
    });
    await policy.update('sleep', { holder: { name: 'grpo', incarnation: 'one' } });
    return async () => {
      await policy.update('wake', {});
      await policy.close();
    };
  },
};

describe('engines that compute nothing for a while', { concurrency: true }, () => {
  let bed: Testbed;
  before(async () => {
    bed = await startTestbed('idle-engines');
  });
  after(() => bed.end());

  for (const state of ['paused', 'asleep'] as const)
    test(`because they are ${state} hold no slot of a worker: a batch of another service ends meanwhile`, async () => {
      const queue = `idle-${state}`;
      const settings = { dev_mode: true, thinking_tokens: 8, tokens_per_second: 200 };
      const generation = await bed.simulate({ [state]: settings, awake: settings });
      const service = generation[state]!;
      // So soon a silent engine is asked whether it is paused.
      generation[state] = { ...service, first_token_timeout: '2s' };
      await bed.startWorker({
        task_queue: queue,
        generation,
        worker: { memory: MEMORY, heartbeat_timeout: '5s' },
      });
      const start = (of: string, samples: number): Promise<StartedBatch> => {
        const request = puzzleRequest({ samples, num_repeats: 1 }, { max_rollout_turns: 2 });
        const named = { ...request.generation, service: of };
        return startBatch(bed.batch(`${state}-${of}`, queue), { ...request, generation: named });
      };
      const url = service.base_urls[0]!.replace(/\/v1$/, '');
      const comesBack = await IDLE[state]({ url, queue, bed });
      const waits = await start(state, WAITING);
      const progress = () => waits.handle.query<BatchProgress>('progress');
      const journals = path.join(bed.store_root, waits.batch_id, 'journals');
      await eventually('a rollout in each slot', async () => {
        const opened = await readdir(journals).catch(() => []);
        return opened.length >= SLOTS;
      });
      const { result } = await (await start('awake', 4)).outcome();
      assert.equal(result?.counts.completed, 4);
      assert.equal((await progress()).done, 0);
      await comesBack();
      const { result: later } = await waits.outcome();
      assert.equal(later?.counts.completed, WAITING);
    });
});
