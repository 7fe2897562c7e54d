/**
 * Workers that share nothing but a database and the folder of results, two of each role, killed one after the other
 * until their batch ends. `npm run test:kills` plays the size that the project promises: 2,048 rollouts of 10 turns, a
 * kill every 10 s.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { puzzleSamples } from '../../lab/bench/samples.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import type { JournalsCopy } from '../../lab/bed/journal-copies.js';
import { askedAgain } from '../../lab/bed/journal-copies.js';
import type { KeptWorker } from '../../lab/bed/kept-worker.js';
import type { PostgresBed } from '../../lab/bed/postgres-bed.js';
import { startPostgresBed } from '../../lab/bed/postgres-bed.js';
import type { PostgresServer } from '../../lab/bed/postgres-server.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { assertNotGeneratedAgain, countTurns, playUndisturbed } from '../harness/recovery-runs.js';
import { assertComplete, assertSameOutcome } from '../harness/row-comparison.js';
import type { CountdownEnvironment } from '../servers/countdown-environment.js';
import { startCountdownEnvironment } from '../servers/countdown-environment.js';

const wanted = process.env['KILLED_ROLLOUTS'];
const ROLLOUTS = Number(wanted ?? 2048);
const KILL_EVERY_MS = Number(process.env['KILL_EVERY_MS'] ?? 10_000);
const LIMIT_MS = 600_000 + 1500 * ROLLOUTS;

const SIZE = { samples: ROLLOUTS / 16, repeats: 16 };
const TURNS = 10;
const BATCH = 'killed';
const STORE = 'disturbed';
const ROLES = ['workflow', 'generation', 'environment'] as const;
const WORKERS = [1, 2].flatMap((host) => ROLES.map((role) => `${role}-${host}`));

/** Greedy: a generation that is resumed comes out as it would have. No board is solved in so few turns. */
const REQUEST = {
  ...puzzleBatch({ ...SIZE, max_in_flight: 256, max_rollout_turns: TURNS, rollout_timeout: '1h' }),
  generation: { greedy: true, max_new_tokens: 256 },
  limit: null,
  // Every fourth plays in a service: its steps are work for role environment.
  samples: puzzleSamples(SIZE.samples).map((sample, row) =>
    row % 4 === 0 ? { ...sample, task_name: 'countdown', extra_env_info: { left: TURNS } } : sample,
  ),
};

const notWanted = wanted === undefined && 'it takes long: `npm run test:kills`';

describe(
  `${ROLLOUTS} rollouts on workers that are killed in turn, one every ${KILL_EVERY_MS / 1000} s`,
  { skip: noPostgres || notWanted },
  () => {
    const copies: JournalsCopy[] = [];
    const seconds: Record<string, number> = {};
    let environment: CountdownEnvironment;
    let server: PostgresServer;
    let tables: PostgresBed;
    let undisturbed: BatchOutcome;
    let outcome: BatchOutcome;
    /** Those of the undisturbed run come first. */
    let undisturbedSteps: number;

    before(async () => {
      environment = await startCountdownEnvironment(50);
      server = await startPostgres({ fsync: 'on' });
      tables = await startPostgresBed({
        name: 'kills',
        server,
        stores: [STORE],
        workers: WORKERS,
        environments: {
          sliding_puzzle: { kind: 'sliding_puzzle' },
          countdown: { kind: 'http', url: environment.url },
        },
        worker: { heartbeat_timeout: '5s', turn_slice: '2s' },
        roles: (worker) => {
          const role = ROLES.find((name) => worker.startsWith(`${name}-`));
          return role && [role];
        },
      });
      await tables.bed.observed(play);
    });
    after(async () => {
      await tables.end();
      await server.stop();
      await environment.close();
    });

    async function timed<T>(what: string, run: () => Promise<T>): Promise<T> {
      const began = performance.now();
      const result = await run();
      seconds[what] = Math.round((performance.now() - began) / 100) / 10;
      return result;
    }

    async function play(): Promise<void> {
      const { bed } = tables;
      await bed.simulator().change({ tokens_per_second: 120, ms_to_first_token: 50 });
      undisturbed = await timed('undisturbed', () =>
        playUndisturbed(bed, { batch_id: BATCH, request: REQUEST, timeout_ms: LIMIT_MS }),
      );
      assertComplete(undisturbed, SIZE);
      assert.equal(countTurns(undisturbed), ROLLOUTS * TURNS);
      undisturbedSteps = environment.steps.length;
      const workers = await Promise.all(WORKERS.map((name) => bed.startWorker(STORE, name)));
      const batch = bed.batch(STORE, BATCH);
      outcome = await timed('disturbed', async () => {
        await batch.start(REQUEST);
        const ending = batch.outcome(LIMIT_MS);
        await killUntil(ending, workers);
        return await ending;
      });
      await Promise.all(workers.map((worker) => worker.stop()));
    }

    /** Copies what is stored while a worker is dead. */
    async function killUntil(end: Promise<unknown>, workers: readonly KeptWorker[]): Promise<void> {
      const isOver = end.then(() => true);
      for (let next = performance.now(); ;) {
        next += KILL_EVERY_MS;
        // Those who start slowly are to play before the next one dies.
        if (next < performance.now()) next = performance.now() + KILL_EVERY_MS;
        if (await Promise.race([isOver, sleep(next - performance.now(), false)])) return;
        await workers[copies.length % workers.length]?.kill(async () => {
          copies.push(await tables.copyTables(STORE, server.url));
        });
      }
    }

    test('ends with every rollout once and whole', (t) => {
      const { metrics, counts } = outcome.result!;
      const figures = {
        kills: copies.length,
        seconds,
        turns: countTurns(outcome),
        counts,
        metrics,
      };
      t.diagnostic(JSON.stringify(figures));
      assertComplete(outcome, SIZE);
      assert.equal(countTurns(outcome), ROLLOUTS * TURNS);
      const least = Math.min(WORKERS.length, Math.floor(ROLLOUTS / 16));
      assert.ok(copies.length >= least, `${copies.length} kills prove little`);
    });

    test('has the rows and the metrics of an undisturbed run with its journals in files', () => {
      assertSameOutcome(outcome, undisturbed);
    });

    test('generates no turn and plays no step again that was journalled when a worker was killed', async () => {
      await assertNotGeneratedAgain(tables.bed, copies);
      const steps = environment.steps.map((step) => ({ ...step, writer: null }));
      const asked = steps.slice(undisturbedSteps);
      for (const copy of copies)
        assert.deepEqual(askedAgain(copy, { asked, what: 'observations' }), []);
      const keysOf = (some: typeof steps): Set<string> => new Set(some.map(({ key }) => key));
      assert.deepEqual(keysOf(asked), keysOf(steps.slice(0, undisturbedSteps)));
    });
  },
);
