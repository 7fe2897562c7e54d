import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import {
  allServe,
  countCells,
  isHit,
  nameOf,
  policyCells,
  settled,
  startCellBatch,
  startCellBed,
  strikesOn,
} from '../harness/policy-cells.js';
import { sendingTrainer } from '../harness/sending-trainer.js';
import { eventually } from '../../lab/bed/waiting.js';

/**
 * Engines go to sleep and are woken while rollouts run, and a part is lost in the middle. The engine holds one call open
 * until the victim is dead.
 */

const CALLS = { sleep: '/sleep', wake: '/wake_up', load: '/collective_rpc' } as const;

describe('a sleep that loses a part in the middle', () => {
  let bed: PolicyBed;
  const count = countCells('asleep');
  before(async () => {
    bed = await startCellBed('asleep');
    await bed.publish(await bed.weights(1));
  });
  after(async () => {
    count.say();
    await bed.end();
  });

  for (const cell of policyCells('asleep'))
    test(`moment and victim: ${nameOf(cell)}`, async () => {
      const { phase, victim } = cell;
      const [engine] = bed.engines;
      assert.ok(engine !== undefined);
      const batch = await startCellBatch(bed, { cell });
      const trainer = sendingTrainer(bed);
      const sleeps = () => trainer.sleep({ level: 2, until: victim === 'trainer' ? '3s' : '10m' });
      if (phase !== 'sleep') await sleeps();
      const fault = victim === 'answer' ? 'lost_answer' : 'hold';
      await engine.process().inject({ fault, path: CALLS[phase] });
      const isAlone = victim === 'trainer' && phase !== 'sleep';
      const first = settled(
        isAlone ? Promise.resolve() : phase === 'sleep' ? sleeps() : trainer.wake(),
      );
      await isHit(engine);
      // Nobody asks for anything any more.
      if (victim === 'trainer') await engine.process().clearFaults();
      else await strikesOn(bed)[victim](engine);
      await first;
      if (victim !== 'trainer') await eventually('wake', () => settled(trainer.wake()));
      await allServe(bed);
      count.add(cell, await batch.judge());
    });
});
