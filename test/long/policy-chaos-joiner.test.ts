import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import type { PolicyCell } from '../harness/policy-cells.js';
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
import type { Engine } from '../../lab/bed/engine.js';
import { askPolicy, sendingTrainer } from '../harness/sending-trainer.js';
import { readArrivals } from '../../lab/bed/simulator.js';
import { eventually } from '../../lab/bed/waiting.js';
import { repairBy, walkTransfer } from '../harness/walked-transfer.js';

/**
 * An engine joins while rollouts run, alone or beside an update or a transfer, and a part is lost in the middle. The
 * joiner is the engine that is lost, and whose network is.
 */

type Cell = PolicyCell<'joiner'>;

/** The joiner's call that is held: of its examination, of its load. */
const CALLS = { examined: '/tokenize', loaded: '/collective_rpc' } as const;

describe('an engine that joins while a part is lost', () => {
  let bed: PolicyBed;
  let version = 1;
  const count = countCells('joiner');
  before(async () => {
    bed = await startCellBed('joiner', {
      generation: { wire: 'generate', allow: [{ cidr: '127.0.0.0/8', ports: '1-65535' }] },
    });
  });
  after(async () => {
    count.say();
    await bed.end();
  });

  const publishNext = async () => {
    version = ((await bed.record())?.target ?? 0) + 1;
    return await bed.weights(version);
  };
  const join = async ({ replica: url }: Engine): Promise<void> => {
    await eventually('the answer of join', () =>
      settled(askPolicy(bed, (client) => client.update('join', { url }))),
    );
    await eventually('the joiner in the record', async () =>
      Object.keys((await bed.record())?.replicas ?? {}).includes(url),
    );
  };
  /** What the engine before it in its folder was asked. */
  let askedBefore = 0;
  /** It was asked to generate nothing yet. */
  const isUnasked = async ({ directory }: Engine): Promise<void> => {
    assert.equal((await readArrivals(directory)).length, askedBefore);
  };
  const joinDuring = async (
    phase: Cell['phase'],
    { joiner, strike }: { joiner: Engine; strike: () => Promise<void> },
  ) => {
    const [engine] = bed.engines;
    assert.ok(engine !== undefined);
    if (phase === 'examined' || phase === 'loaded') {
      await joiner.process().inject({ fault: 'hold', path: CALLS[phase] });
      const joining = settled(join(joiner));
      await isHit(joiner);
      await isUnasked(joiner);
      await strike();
      assert.ok(await joining);
    } else if (phase === 'update') {
      const weights = await publishNext();
      await engine.process().inject({ fault: 'hold', path: '/collective_rpc' });
      const first = settled(bed.publish(weights));
      await isHit(engine);
      await join(joiner);
      await isUnasked(joiner);
      await strike();
      await engine.process().clearFaults();
      await first;
      await eventually('the update', () => settled(bed.publish(weights)));
    } else {
      const trainer = sendingTrainer(bed);
      await walkTransfer(trainer, {
        phase: 'half',
        engine,
        strike: async () => {
          await join(joiner);
          await isUnasked(joiner);
          await strike();
        },
      });
      await isUnasked(joiner);
      // Nobody else has the weights.
      await repairBy(trainer, bed);
      await eventually('the release', () => settled(trainer.release()));
    }
  };

  for (const cell of policyCells('joiner'))
    test(`moment and victim: ${nameOf(cell)}`, async () => {
      // Files, from which a joiner is loaded.
      await bed.publish(await publishNext());
      const batch = await startCellBatch(bed, { cell, samples: 8, turns: 4 });
      const joiner = await bed.addEngine();
      askedBefore = (await readArrivals(joiner.directory)).length;
      const strike = () => strikesOn(bed)[cell.victim](joiner);
      await joinDuring(cell.phase, { joiner, strike });
      await allServe(bed);
      assert.ok(Object.keys((await bed.record())?.replicas ?? {}).includes(joiner.replica));
      count.add(cell, await batch.judge());
      await askPolicy(bed, (client) => client.update('leave', { url: joiner.replica }));
      bed.engines.pop();
      await joiner.end();
    });
});
