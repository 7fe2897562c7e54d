import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import type { PolicyCell } from '../harness/policy-cells.js';
import {
  allServe,
  countCells,
  nameOf,
  policyCells,
  startCellBatch,
  startCellBed,
  strikesOn,
} from '../harness/policy-cells.js';
import { sendingTrainer } from '../harness/sending-trainer.js';
import { killed, unlessKilled, walkTransfer } from '../harness/walked-transfer.js';

/**
 * Temporal is away for two minutes while a ticket is open. Its holder can say nothing meanwhile, for longer than its
 * `stall_limit`, and finishes all the same; a holder that has died is found when Temporal is back.
 */

const cells = policyCells('away');
const STALL_LIMIT = '20s';

describe('a transfer without Temporal for two minutes', { skip: cells.length === 0 }, () => {
  let bed: PolicyBed;
  const count = countCells('away');
  before(async () => {
    bed = await startCellBed('away', { generation: { wire: 'generate' } });
    await bed.publish(await bed.weights(1));
  });
  after(async () => {
    count.say();
    await bed.end();
  });

  const lose = async ({ phase, victim }: PolicyCell<'away'>) => {
    const [engine] = bed.engines;
    assert.ok(engine !== undefined);
    const version = ((await bed.record())?.target ?? 0) + 1;
    const { weights } = await bed.weights(version);
    const trainer = sendingTrainer(bed, { incarnation: `${phase} ${victim}` });
    const strike = async () => {
      await strikesOn(bed).temporal(engine);
      if (victim === 'temporal and trainer') killed();
    };
    const given = { version, checkpoint: weights.path, stall_limit: STALL_LIMIT };
    return await walkTransfer(trainer, { phase, engine, given, strike }).catch(unlessKilled);
  };

  for (const cell of cells)
    test(`phase and victim: ${nameOf(cell)}`, async () => {
      const batch = await startCellBatch(bed, { cell });
      const finished = await lose(cell);
      assert.equal(finished === null, cell.victim === 'temporal and trainer');
      await allServe(bed, finished?.version ?? null);
      count.add(cell, await batch.judge());
    });
});
