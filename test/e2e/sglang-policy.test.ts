import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import type { Engine } from '../../lab/bed/engine.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { PolicyCell } from '../harness/policy-cells.js';
import {
  allServe,
  isHit,
  settled,
  startCellBatch,
  startCellBed,
  strikesOn,
} from '../harness/policy-cells.js';
import { sendingTrainer } from '../harness/sending-trainer.js';

/** A few cells of the matrix of `test/long/policy-chaos*`, with engines that speak SGLang. */

describe('a policy on SGLang', () => {
  let bed: PolicyBed;
  let version = 1;
  before(async () => {
    bed = await startCellBed('update', {
      engine: 'sglang',
      simulator: { max_loras: 3, incremental_streaming: true },
    });
    await bed.publish(await bed.weights(version));
  });
  after(() => bed.end());

  const next = async () => bed.weights((version += 1));
  const startBatch = (cell: PolicyCell) => startCellBatch(bed, { cell, samples: 4, turns: 2 });
  /** `cell` names their batch. Rollouts that play meanwhile may end under either version. */
  const laterOnesHave = async (version: number, cell: PolicyCell): Promise<void> => {
    const { labels } = await (await startBatch(cell)).judge();
    assert.deepEqual(Object.keys(labels), [String(version)]);
  };
  const holder = { name: 'grpo', incarnation: 'one' };
  const first = (): Engine => bed.engines[0] ?? assert.fail('no engine');

  for (const mode of ['keep', 'abort'] as const)
    test(`moves on while rollouts play, mode ${mode}`, async () => {
      const phase = mode === 'keep' ? 'pause' : 'resume';
      const cell: PolicyCell = { kind: 'update', phase, victim: 'answer' };
      const batch = await startBatch(cell);
      await bed.publish({ ...(await next()), mode });
      await allServe(bed, version);
      await batch.judge();
      await laterOnesHave(version, { ...cell, victim: 'worker' });
    });

  for (const victim of ['worker', 'engine'] as const)
    test(`moves on although a load loses its ${victim}`, async () => {
      const batch = await startBatch({ kind: 'update', phase: 'load', victim });
      await first().process().inject({ fault: 'hold', path: '/collective_rpc' });
      const weights = await next();
      const publishing = settled(bed.publish(weights));
      await isHit(first());
      await strikesOn(bed)[victim](first());
      await publishing;
      await eventually('the update to succeed', () => settled(bed.publish(weights)));
      await allServe(bed, version);
      await batch.judge();
    });

  test('gets the weights that a trainer sends by code of its own', async () => {
    const batch = await startBatch({ kind: 'transfer', phase: 'half', victim: 'trainer' });
    version += 1;
    await sendingTrainer(bed).transfer({ version });
    await allServe(bed, version);
    await batch.judge();
  });

  test('sleeps without its weights, and is woken with them', async () => {
    const batch = await startBatch({ kind: 'asleep', phase: 'wake', victim: 'trainer' });
    const trainer = sendingTrainer(bed);
    await bed.publish({ ...(await next()), holder });
    await trainer.sleep({ level: 2 });
    await trainer.wake();
    await allServe(bed, version);
    await batch.judge();
  });

  test('gets an adapter without a pause', async () => {
    const cell: PolicyCell = { kind: 'update', phase: 'adapter', victim: 'answer' };
    const batch = await startBatch(cell);
    const { weights } = await next();
    const adapter = { ...weights, kind: 'lora' as const };
    const { paused_s } = await bed.publish({ version, weights: adapter, holder });
    assert.equal(paused_s, 0);
    await allServe(bed, version);
    await batch.judge();
    await laterOnesHave(version, { ...cell, victim: 'worker' });
  });
});
