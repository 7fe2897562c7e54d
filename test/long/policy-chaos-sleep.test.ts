import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import type { Engine, PolicyBed } from '../harness/policy-bed.js';
import { isPaused, startPolicyBed } from '../harness/policy-bed.js';
import { puzzleBatch } from '../harness/recovery-bed.js';
import { sendingTrainer } from '../harness/sending-trainer.js';
import { eventually } from '../harness/waiting.js';

/**
 * Engines go to sleep and are woken while rollouts run, and a part is lost in the middle. The engine holds one call open
 * until the victim is dead. `POLICY_CELLS` chooses as for updates.
 */

const CALLS = { sleep: '/sleep', wake: '/wake_up', load: '/collective_rpc' } as const;
type Moment = keyof typeof CALLS;

const VICTIMS = ['worker', 'server', 'engine', 'answer', 'trainer'] as const;
type Victim = (typeof VICTIMS)[number];

const CELLS = Object.keys(CALLS).flatMap((moment) => VICTIMS.map((victim) => ({ moment: moment as Moment, victim }))); // prettier-ignore
const SHORT = new Set(['asleep: sleep × worker', 'asleep: wake × trainer']);
const nameOf = ({ moment, victim }: { moment: Moment; victim: Victim }): string =>
  `asleep: ${moment} × ${victim}`;
const asked = process.env['POLICY_CELLS'];
const chosen = CELLS.filter((cell) =>
  asked === undefined
    ? SHORT.has(nameOf(cell))
    : asked === 'all' || asked.split(',').some((word) => nameOf(cell).includes(word)),
);

const HELD = { timeout_ms: 120_000 };

describe('a sleep that loses a part in the middle', () => {
  let bed: PolicyBed;
  before(async () => {
    bed = await startPolicyBed({
      name: 'policy-chaos-sleep',
      own_server: true,
      simulator: { log_tokens: true },
      worker: { heartbeat_timeout: '5s' },
    });
    await bed.publish(await bed.weights(1));
  });
  after(() => bed.end());

  const isHit = (engine: Engine): Promise<unknown> =>
    eventually({ what: 'the call', ...HELD }, async () => {
      const reply = await fetch(`${engine.process().url}/simulator/faults`);
      const { faults } = (await reply.json()) as { faults: { hits: number }[] };
      return faults.some(({ hits }) => hits > 0);
    });
  const strike: Record<Victim, (engine: Engine) => Promise<void>> = {
    worker: (engine) => bed.worker.kill(() => engine.process().clearFaults()),
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
    // Nobody asks for anything any more.
    trainer: (engine) => engine.process().clearFaults(),
  };
  const inFullSwing = (): Promise<unknown> =>
    eventually({ what: 'streams on both engines', ...HELD }, async () => {
      const running = await Promise.all(bed.engines.map((one) => one.process().runningRequests()));
      return running.every((streams) => streams > 0);
    });
  const allServe = (): Promise<unknown> =>
    eventually({ what: 'every replica awake', ...HELD }, async () => {
      const { replicas = {}, sleep = null } = (await bed.record()) ?? {};
      return sleep === null && Object.values(replicas).every(({ state }) => state === 'current');
    });
  const settled = (asking: Promise<unknown>): Promise<boolean> =>
    asking.then(
      () => true,
      () => false,
    );

  for (const cell of chosen)
    test(`moment and victim: ${nameOf(cell)}`, { timeout: 400_000 }, async () => {
      const { moment, victim } = cell;
      const id = `sleep-${moment}-${victim}`;
      const [engine] = bed.engines;
      assert.ok(engine !== undefined);
      for (const one of bed.engines) await one.process().clearFaults();
      await bed.batch(id).start(puzzleBatch({ samples: 6, repeats: 2, max_rollout_turns: 3 }));
      await inFullSwing();
      const trainer = sendingTrainer(bed);
      const sleeps = () => trainer.sleep({ level: 2, until: victim === 'trainer' ? '3s' : '10m' });
      if (moment !== 'sleep') await sleeps();
      const fault = victim === 'answer' ? 'lost_answer' : 'hold';
      await engine.process().inject({ fault, path: CALLS[moment] });
      const isAlone = victim === 'trainer' && moment !== 'sleep';
      const first = settled(isAlone ? Promise.resolve() : moment === 'sleep' ? sleeps() : trainer.wake()); // prettier-ignore
      await isHit(engine);
      await strike[victim](engine);
      await first;
      if (victim !== 'trainer')
        await eventually({ what: 'wake', ...HELD }, () => settled(trainer.wake()));
      await allServe();
      const { result, failures } = await bed.batch(id).outcome();
      assert.equal(result?.counts.completed, 12);
      assert.deepEqual(failures, []);
      for (const one of bed.engines) assert.equal(await isPaused(one), false);
      const report = await bed.check(id);
      assert.deepEqual(report.wrong, []);
      assert.deepEqual([report.unlabelled, report.turns_generated_twice], [0, 0]);
      console.log(nameOf(cell), JSON.stringify(report));
    });
});
