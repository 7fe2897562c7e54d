import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { planMemory } from '../../src/workers/memory.js';

const MIB = 2 ** 20;
const planOf = (mib: number, max_generations = 256) =>
  planMemory({ memory_bytes: mib * MIB, max_generations });

/** Resident bytes of a worker that is full: cost by cost as measured (ARCHITECTURE.md). */
const fullBytes = (plan: ReturnType<typeof planMemory>): number =>
  256 * MIB +
  plan.cached_workflows * 256 * 1024 +
  plan.folded_journal_bytes * 3 * 2 +
  plan.request_bytes * 4 * 2 +
  plan.generations * 256 * 1024;

describe('what fits into worker.memory', () => {
  test('is all of the default settings at 1GiB and at 512MiB', () => {
    for (const mib of [1024, 512]) {
      const { generations, steps, others, cached_workflows } = planOf(mib);
      assert.deepEqual(
        { generations, steps, others },
        { generations: 256, steps: 256, others: 64 },
      );
      // Those in flight, and the slices of 10,000 rollouts.
      assert.ok(cached_workflows >= 256 + 79, `${cached_workflows} cached workflows at ${mib} MiB`);
    }
  });

  test('adds up to no more than the setting, from 384MiB on', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 384, max: 65_536 }),
        fc.integer({ min: 1, max: 100_000 }),
        (mib, max) => {
          const bytes = fullBytes(planOf(mib, max));
          assert.ok(bytes <= mib * MIB, `${bytes / MIB} MiB of ${mib}`);
        },
      ),
    );
  });

  test('never shrinks as the setting grows', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 8192 }), fc.integer({ min: 0, max: 8192 }), (a, b) => {
        const [less, more] = [planOf(Math.min(a, b), 10_000), planOf(Math.max(a, b), 10_000)];
        for (const name of Object.keys(less) as (keyof typeof less)[])
          assert.ok(less[name] <= more[name], name);
      }),
    );
  });

  test('is little, and never nothing, where the process alone takes all of it', () => {
    assert.deepEqual(planOf(0.1), {
      cached_workflows: 16,
      folded_journal_bytes: 0,
      request_bytes: 0,
      generations: 8,
      steps: 8,
      others: 8,
    });
    assert.equal(planOf(0.1, 2).generations, 2);
  });

  test('holds max_generations back where they would not fit', () => {
    assert.equal(planOf(512, 1000).generations, 307);
    assert.equal(planOf(4096, 1000).generations, 1000);
  });
});
