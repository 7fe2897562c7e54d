import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { Phase } from '../../src/model/workflow-safe/policy.js';
import type { Engine, PolicyBed } from '../harness/policy-bed.js';
import { isPaused, startPolicyBed } from '../harness/policy-bed.js';
import { puzzleBatch } from '../harness/recovery-bed.js';
import { eventually } from '../harness/waiting.js';

/**
 * The engine holds a call of one phase open until a victim is dead. Then everything recovers by itself, or because the
 * trainer asks again. `POLICY_CELLS=all` plays every cell (`npm run chaos:policy`), `POLICY_CELLS=load,engine` those
 * whose name has one of the words.
 */

/** An update of engines that are awake. */
type Struck = Exclude<Phase, 'wake'>;
const CALLS: Record<Exclude<Struck, 'record'>, { path: string; match?: string }> = {
  pause: { path: '/pause' },
  load: { path: '/collective_rpc' },
  label: { path: '/update_weight_version' },
  cache: { path: '/reset_prefix_cache' },
  resume: { path: '/resume' },
  probe: { path: '/v1/completions', match: 'weights-probe' },
  adapter: { path: '/v1/load_lora_adapter', match: 'weights-probe' },
};

type Victim = 'worker' | 'server' | 'engine' | 'trainer' | 'answer';

interface Cell {
  phase: Struck;
  victim: Victim;
}

const VICTIMS: readonly Victim[] = ['worker', 'server', 'engine', 'trainer', 'answer'];
const PHASES: readonly Struck[] = [
  'record',
  'pause',
  'load',
  'label',
  'cache',
  'resume',
  'probe',
  'adapter',
];
/** Phase `record` asks no engine, so no engine's answer can be lost in it. */
const CELLS: readonly Cell[] = PHASES.flatMap((phase) =>
  VICTIMS.map((victim) => ({ phase, victim })),
).filter(({ phase, victim }) => phase !== 'record' || victim !== 'answer');
const SHORT = new Set(['load × worker', 'load × engine', 'resume × answer', 'probe × trainer', 'adapter × engine']); // prettier-ignore

const nameOf = ({ phase, victim }: Cell): string => `${phase} × ${victim}`;
const asked = process.env['POLICY_CELLS'];
const chosen = CELLS.filter((cell) =>
  asked === undefined
    ? SHORT.has(nameOf(cell))
    : asked === 'all' || asked.split(',').some((word) => nameOf(cell).includes(word)),
);

const PAUSE_LIMIT_S = 60;
/** The longest duration of a cut-off and a resume on a busy machine. */
const SLACK_S = 30;
const HELD = { timeout_ms: 60_000 };

describe('an update that loses a part in the middle of a phase', () => {
  let bed: PolicyBed;
  let version = 1;
  before(async () => {
    bed = await startPolicyBed({
      name: 'policy-chaos',
      own_server: true,
      simulator: { log_tokens: true, max_loras: 3 },
      worker: { heartbeat_timeout: '5s' },
    });
    await bed.publish(await bed.weights(version));
  });
  after(() => bed.end());

  const currentAtLast = (): Promise<unknown> =>
    eventually({ what: `every replica at ${version}`, timeout_ms: 120_000 }, async () => {
      const { replicas = {}, version: has = null } = (await bed.record()) ?? {};
      const entries = Object.values(replicas);
      return has === version && entries.every((one) => one.state === 'current' && one.version === version); // prettier-ignore
    });

  /** An adapter is for the weights of the cell before, or of those below its adapter. */
  const weightsFor = async ({ phase }: Cell): Promise<Weights> => {
    const weights = await bed.weights(version);
    const { path } = weights.weights;
    return phase === 'adapter' ? { version, weights: { kind: 'lora', path } } : weights;
  };

  const isInFullSwing = (): Promise<unknown> =>
    eventually({ what: 'streams on both engines', timeout_ms: 60_000 }, async () => {
      const running = await Promise.all(bed.engines.map((one) => one.process().runningRequests()));
      return running.every((streams) => streams > 0);
    });

  const hits = async (engine: Engine): Promise<number> => {
    const response = await fetch(`${engine.process().url}/simulator/faults`);
    const { faults } = (await response.json()) as { faults: { hits: number }[] };
    return faults.reduce((sum, one) => sum + one.hits, 0);
  };

  /** Prepares a trap in a phase. The returned function resolves when the replica is in that phase. */
  const layTrap = async ({ phase, victim }: Cell, engine: Engine): Promise<() => Promise<void>> => {
    const what = `${phase} of ${engine.replica}`;
    if (phase === 'record') {
      const isUpdating = async (): Promise<boolean> =>
        (await bed.record())?.replicas[engine.replica]?.state === 'updating';
      return async () => {
        await eventually({ what, ...HELD }, isUpdating);
      };
    }
    const fault = victim === 'answer' ? 'lost_answer' : 'hold';
    await engine.process().inject({ fault, ...CALLS[phase] });
    return async () => {
      await eventually({ what, ...HELD }, async () => (await hits(engine)) === 1);
      if (victim === 'answer') return;
      // A lasting phase is visible in status and details.
      await eventually(
        { what: `${what} in the status`, ...HELD },
        async () => (await bed.status()).phases[engine.replica] === phase,
      );
    };
  };

  const strike: Record<Exclude<Victim, 'trainer'>, (engine: Engine) => Promise<void>> = {
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
    answer: () => Promise.resolve(),
  };

  type Weights = Awaited<ReturnType<PolicyBed['weights']>>;
  const succeeds = (weights: Weights): Promise<boolean> =>
    bed.publish(weights).then(
      () => true,
      () => false,
    );

  /** A dead trainer asks no more; any other asks until it has its version. */
  const publishThrough = async (cell: Cell, weights: Weights): Promise<void> => {
    const [engine] = bed.engines;
    assert.ok(engine !== undefined);
    const isHit = await layTrap(cell, engine);
    if (cell.victim === 'trainer') {
      const trainer = await bed.startTrainer(weights);
      await isHit();
      trainer.kill();
      await trainer.exited;
      await engine.process().clearFaults();
      return;
    }
    const first = succeeds(weights);
    await isHit();
    await strike[cell.victim](engine);
    await first;
    const what = { what: 'the update to succeed', timeout_ms: 120_000 };
    await eventually(what, () => succeeds(weights));
  };

  for (const cell of chosen) {
    test(`phase and victim: ${nameOf(cell)}`, { timeout: 400_000 }, async () => {
      const id = `cell-${cell.phase}-${cell.victim}`;
      const pauses = bed.watchPauses();
      // Removes the faults that a failed cell has left.
      for (const engine of bed.engines) await engine.process().clearFaults();
      await bed.batch(id).start(puzzleBatch({ samples: 8, repeats: 2, max_rollout_turns: 4 }));
      await isInFullSwing();
      version += 1;
      await publishThrough(cell, {
        ...(await weightsFor(cell)),
        pause_limit: `${PAUSE_LIMIT_S}s`,
      });
      await currentAtLast();
      const { result, rollouts, failures } = await bed.batch(id).outcome();
      const longest_pause_s = await pauses.stop();
      assert.deepEqual(result?.counts, { ...result?.counts, requested: 16, completed: 16 });
      assert.equal(rollouts.length, 16);
      assert.deepEqual(failures, []);
      for (const engine of bed.engines) assert.equal(await isPaused(engine), false);
      assert.ok(longest_pause_s < PAUSE_LIMIT_S + SLACK_S, `paused for ${longest_pause_s} s`);
      const report = await bed.check(id);
      assert.deepEqual(report.wrong, []);
      assert.equal(report.unlabelled, 0);
      assert.equal(report.turns_generated_twice, 0);
      console.log(nameOf(cell), JSON.stringify({ ...report, longest_pause_s }));
    });
  }
});
