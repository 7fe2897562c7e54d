import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import type { PolicyCell } from '../harness/policy-cells.js';
import {
  allServe,
  countCells,
  nameOf,
  policyCells,
  settled,
  startCellBatch,
  startCellBed,
  strikesOn,
} from '../harness/policy-cells.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { reasonOf, sendingTrainer } from '../harness/sending-trainer.js';
import { eventually } from '../../lab/bed/waiting.js';
import { killed, repairBy, unlessKilled, walkTransfer } from '../harness/walked-transfer.js';

/** A trainer sends weights while rollouts run, and a part is lost in the middle. */

type Cell = PolicyCell<'transfer'>;

describe('a transfer that loses a part in the middle', () => {
  let bed: PolicyBed;
  const count = countCells('transfer');
  before(async () => {
    bed = await startCellBed('transfer', { generation: { wire: 'generate' } });
    await bed.publish(await bed.weights(1));
  });
  after(async () => {
    count.say();
    await bed.end();
  });

  const first = () => {
    const [engine] = bed.engines;
    assert.ok(engine !== undefined);
    return engine;
  };
  const incarnationOf = ({ phase, victim }: Cell): string => `${phase}-${victim}`;

  /** The engine may be lost to the transfer; whatever else is lost, every engine has the weights at its end. */
  const isLost = ({ phase, victim }: Cell): boolean =>
    victim === 'engine' || (victim === 'network' && ['begin', 'finish', 'labels'].includes(phase));

  const survive = async (cell: Cell, victim: Exclude<Cell['victim'], 'trainer' | 'silence'>) => {
    const trainer = sendingTrainer(bed, { incarnation: incarnationOf(cell) });
    const engine = first();
    const strike = () => strikesOn(bed)[victim](engine);
    const given = { quorum: 1 };
    const { version } = await walkTransfer(trainer, { phase: cell.phase, engine, given, strike });
    if (isLost(cell)) await repairBy(trainer, bed);
    await allServe(bed, version);
  };

  /** Its successor takes the engines over, and it is refused for ever. */
  const succeed = async (cell: Cell) => {
    const engine = first();
    const dead = sendingTrainer(bed, { incarnation: incarnationOf(cell) });
    const strike = async () => {
      await engine.process().clearFaults();
      killed();
    };
    await walkTransfer(dead, { phase: cell.phase, engine, strike }).catch(unlessKilled);
    const heir = sendingTrainer(bed, { incarnation: `${incarnationOf(cell)}-heir` });
    await eventually('the next transfer', () => settled(heir.transfer()));
    await allServe(bed);
    if (cell.phase !== 'finish' && cell.phase !== 'labels')
      assert.match(await reasonOf(dead.begin()), /was superseded/);
  };

  /** Nobody follows, but there are files of the weights. */
  const fallSilent = async (cell: Cell) => {
    const engine = first();
    const version = ((await bed.record())?.target ?? 0) + 1;
    const { weights } = await bed.weights(version);
    const strike = async () => {
      await engine.process().clearFaults();
      killed();
    };
    const given = { version, checkpoint: weights.path, stall_limit: '2s' };
    const trainer = sendingTrainer(bed, { incarnation: incarnationOf(cell) });
    await walkTransfer(trainer, { phase: cell.phase, engine, given, strike }).catch(unlessKilled);
    await allServe(bed, version);
  };

  for (const cell of policyCells('transfer'))
    test(`phase and victim: ${nameOf(cell)}`, async () => {
      const { victim } = cell;
      const batch = await startCellBatch(bed, { cell });
      if (victim === 'trainer') await succeed(cell);
      else if (victim === 'silence') await fallSilent(cell);
      else await survive(cell, victim);
      count.add(cell, await batch.judge());
    });

  test('the server may lose its database: the record has the ticket, and a rollout has its labels', async () => {
    const trainer = sendingTrainer(bed, { incarnation: 'without-database' });
    const held = await trainer.begin();
    await trainer.send(held);
    await trainer.endSession(held);
    await bed.killServer();
    await bed.loseDatabase();
    await bed.startServer();
    const { version } = await trainer.finish(held);
    await allServe(bed, version);
    await bed.batch('after').start(puzzleBatch({ samples: 2, repeats: 2, max_rollout_turns: 2 }));
    const { result } = await bed.batch('after').outcome();
    assert.equal(result?.counts.completed, 4);
    const { wrong, labels } = await bed.check('after');
    assert.deepEqual([wrong, Object.keys(labels)], [[], [String(version)]]);
  });
});
