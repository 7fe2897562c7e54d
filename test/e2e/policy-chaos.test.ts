import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { after, before, describe } from 'node:test';
import type { Phase } from '../../src/model/workflow-safe/policy.js';
import type { Engine, PolicyBed } from '../harness/policy-bed.js';
import { startPolicyBed } from '../harness/policy-bed.js';
import { puzzleBatch } from '../harness/recovery-bed.js';
import { eventually } from '../harness/waiting.js';

/**
 * The engine holds a call of one phase open until a victim is dead; then everything has to come right by itself, or
 * because the trainer asks again. `POLICY_CELLS=all` plays every cell, `POLICY_CELLS=load` those whose name has the word.
 */

const PATHS: Record<Exclude<Phase, 'record'>, { path: string; match?: string }> = {
  pause: { path: '/pause' },
  load: { path: '/collective_rpc' },
  label: { path: '/update_weight_version' },
  cache: { path: '/reset_prefix_cache' },
  resume: { path: '/resume' },
  probe: { path: '/v1/completions', match: 'probe' },
};

type Victim = 'worker' | 'server' | 'engine' | 'trainer' | 'answer';

interface Cell {
  phase: Phase;
  victim: Victim;
}

const VICTIMS: readonly Victim[] = ['worker', 'server', 'engine', 'trainer', 'answer'];
const CELLS: readonly Cell[] = [
  { phase: 'record', victim: 'worker' },
  ...Object.keys(PATHS).flatMap((phase) =>
    VICTIMS.map((victim): Cell => ({ phase: phase as Phase, victim })),
  ),
];
const SHORT = new Set(['load × worker', 'load × engine', 'resume × answer', 'probe × worker']);

const nameOf = ({ phase, victim }: Cell): string => `${phase} × ${victim}`;
const asked = process.env['POLICY_CELLS'];
const chosen = CELLS.filter((cell) =>
  asked === undefined ? SHORT.has(nameOf(cell)) : asked === 'all' || nameOf(cell).includes(asked),
);

const PAUSE_LIMIT_MS = 60_000;

describe('an update that loses a part in the middle of a phase', () => {
  let bed: PolicyBed;
  let version = 1;
  before(async () => {
    bed = await startPolicyBed({
      name: 'policy-chaos',
      own_server: true,
      simulator: { log_tokens: true },
    });
    await bed.publish(await bed.weights(version));
  });
  after(() => bed.end());

  const currentAtLast = (): Promise<unknown> =>
    eventually({ what: `every replica at ${version}`, timeout_ms: 90_000 }, async () => {
      const { replicas = {}, version: has = null } = (await bed.record()) ?? {};
      const entries = Object.values(replicas);
      return has === version && entries.every((one) => one.state === 'current' && one.version === version); // prettier-ignore
    });

  /** Resolves when the phase is held open, in the engine or in the record. */
  const hold = async ({ phase, victim }: Cell, engine: Engine): Promise<() => Promise<void>> => {
    if (phase === 'record') {
      const isUpdating = async (): Promise<boolean> =>
        (await bed.record())?.replicas[engine.replica]?.state === 'updating';
      return async () => {
        await eventually({ what: 'the record to change', timeout_ms: 30_000 }, isUpdating);
      };
    }
    const fault = victim === 'answer' ? 'lost_answer' : 'hold';
    await engine.process().inject({ fault, ...PATHS[phase] });
    return () =>
      eventually({ what: `${phase} to be held`, timeout_ms: 30_000 }, async () => {
        const response = await fetch(`${engine.process().url}/simulator/faults`);
        const { faults } = (await response.json()) as { faults: { hits: number }[] };
        return faults.some(({ hits }) => hits === 1);
      }).then(() => undefined);
  };

  const strike: Record<Victim, (engine: Engine) => Promise<void>> = {
    worker: async (engine) => {
      await bed.worker.kill(() => engine.process().clearFaults());
    },
    server: async (engine) => {
      await bed.killServer();
      await engine.process().clearFaults();
      await bed.startServer();
    },
    engine: async (engine) => {
      await engine.kill();
      await engine.start();
    },
    trainer: (engine) => engine.process().clearFaults(),
    answer: () => Promise.resolve(),
  };

  for (const cell of chosen) {
    test(nameOf(cell), { timeout: 240_000 }, async () => {
      const [engine] = bed.engines;
      assert.ok(engine !== undefined);
      const id = `cell-${cell.phase}-${cell.victim}`;
      await bed.batch(id).start(puzzleBatch({ samples: 8, repeats: 2, max_rollout_turns: 4 }));
      await sleep(1000);
      version += 1;
      const weights = { ...(await bed.weights(version)), pause_limit: `${PAUSE_LIMIT_MS}ms` };
      const isHit = await hold(cell, engine);
      const first = bed.publish(weights).then(
        () => true,
        () => false,
      );
      await isHit();
      await strike[cell.victim](engine);
      // A trainer that is gone asks for nothing; any other asks again.
      if (cell.victim !== 'trainer') {
        await first;
        await eventually({ what: 'the update to succeed', timeout_ms: 90_000 }, () =>
          bed.publish(weights).then(
            () => true,
            () => false,
          ),
        );
      }
      await currentAtLast();
      const { result, rollouts, failures } = await bed.batch(id).outcome();
      assert.deepEqual(result?.counts, { ...result?.counts, requested: 16, completed: 16 });
      assert.equal(rollouts.length, 16);
      assert.deepEqual(failures, []);
      const { is_paused } = (await (await fetch(`${engine.process().url}/is_paused`)).json()) as {
        is_paused: boolean;
      };
      assert.equal(is_paused, false);
      const report = await bed.check(id);
      assert.deepEqual(report.wrong, []);
      assert.equal(report.unlabelled, 0);
      assert.equal(report.turns_generated_twice, 0);
      console.log(nameOf(cell), JSON.stringify(report));
    });
  }
});
