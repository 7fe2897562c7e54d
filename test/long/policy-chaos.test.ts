import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { Engine } from '../../lab/bed/engine.js';
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
import { eventually } from '../../lab/bed/waiting.js';

/**
 * The engine holds a call of one phase open until a victim is dead. Then everything recovers by itself, or because the
 * trainer asks again.
 */

type Cell = PolicyCell<'update'>;

const CALLS: Record<Exclude<Cell['phase'], 'record'>, { path: string; match?: string }> = {
  pause: { path: '/pause' },
  load: { path: '/collective_rpc' },
  label: { path: '/update_weight_version' },
  cache: { path: '/reset_prefix_cache' },
  resume: { path: '/resume' },
  probe: { path: '/v1/completions', match: 'weights-probe' },
  adapter: { path: '/v1/load_lora_adapter', match: 'weights-probe' },
};

const PAUSE_LIMIT_S = 60;
/** The longest duration of a cut-off and a resume on a busy machine. */
const SLACK_S = 30;

describe('an update that loses a part in the middle of a phase', () => {
  let bed: PolicyBed;
  let version = 1;
  const count = countCells('update');
  before(async () => {
    bed = await startCellBed('update', { simulator: { max_loras: 3 } });
    await bed.publish(await bed.weights(version));
  });
  after(async () => {
    count.say();
    await bed.end();
  });

  type Weights = Awaited<ReturnType<PolicyBed['weights']>>;
  /** An adapter is for the weights of the cell before, or of those below its adapter. */
  const weightsFor = async ({ phase }: Cell): Promise<Weights> => {
    const weights = await bed.weights(version);
    const { path } = weights.weights;
    return phase === 'adapter' ? { version, weights: { kind: 'lora', path } } : weights;
  };

  /** Prepares a trap in a phase. The returned function resolves when the replica is in that phase. */
  const layTrap = async ({ phase, victim }: Cell, engine: Engine): Promise<() => Promise<void>> => {
    const what = `${phase} of ${engine.replica}`;
    if (phase === 'record') {
      const isUpdating = async (): Promise<boolean> =>
        (await bed.record())?.replicas[engine.replica]?.state === 'updating';
      return async () => {
        await eventually(what, isUpdating);
      };
    }
    const fault = victim === 'answer' ? 'lost_answer' : 'hold';
    await engine.process().inject({ fault, ...CALLS[phase] });
    return async () => {
      await isHit(engine);
      if (victim === 'answer') return;
      // A lasting phase is visible in status and details.
      await eventually(
        `${what} in the status`,
        async () => (await bed.status()).phases[engine.replica] === phase,
      );
    };
  };

  /** A dead trainer asks no more; any other asks until it has its version. */
  const publishThrough = async (cell: Cell, weights: Weights): Promise<void> => {
    const [engine] = bed.engines;
    assert.ok(engine !== undefined);
    const isInPhase = await layTrap(cell, engine);
    if (cell.victim === 'trainer') {
      const trainer = await bed.startTrainer(weights);
      await isInPhase();
      trainer.kill();
      await trainer.exited;
      await engine.process().clearFaults();
      return;
    }
    const first = settled(bed.publish(weights));
    await isInPhase();
    await strikesOn(bed)[cell.victim](engine);
    await first;
    await eventually('the update to succeed', () => settled(bed.publish(weights)));
  };

  for (const cell of policyCells('update')) {
    test(`phase and victim: ${nameOf(cell)}`, async () => {
      const pauses = bed.watchPauses();
      const batch = await startCellBatch(bed, { cell, samples: 8, turns: 4 });
      version += 1;
      await publishThrough(cell, {
        ...(await weightsFor(cell)),
        pause_limit: `${PAUSE_LIMIT_S}s`,
      });
      await allServe(bed, version);
      const report = await batch.judge();
      const longest_pause_s = await pauses.stop();
      assert.ok(longest_pause_s < PAUSE_LIMIT_S + SLACK_S, `paused for ${longest_pause_s} s`);
      count.add(cell, { ...report, longest_pause_s });
    });
  }
});
