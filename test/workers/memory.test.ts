import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { sandboxesAtOnce } from '../../src/environments/code/settings.js';
import { limitIn, mostOpenFiles } from '../../src/platform/process/open-files.js';
import { Config, cutByOpenFiles } from '../../src/workers/config.js';
import { planMemory } from '../../src/workers/memory.js';
import { mostOpenJournals } from '../../src/trajectories/files/open-journals.js';

const MIB = 2 ** 20;
const planOf = (mib: number, { max_generations = 256, queues = 1, open_files = Infinity } = {}) =>
  planMemory({ memory_bytes: mib * MIB, open_files, max_generations, queues });

/** Resident bytes of a worker that is full: cost by cost as measured (src/workers/README.md). */
const fullBytes = (plan: ReturnType<typeof planMemory>, queues: number): number =>
  256 * MIB +
  plan.cached_workflows * 256 * 1024 +
  plan.cached_fold_bytes * 2 +
  plan.answer_bytes * 4 * 2 +
  plan.reply_bytes * 4 * 2 +
  plan.request_bytes * 4 * 2 +
  Math.max(
    plan.played_fold_bytes * 2,
    (plan.generations + (queues === 2 ? plan.steps : 0) + plan.others) * 256 * 1024 +
      (plan.plays - plan.generations) * 64 * 1024,
  );

describe('what fits into worker.memory', () => {
  test('is all of the default settings at 1GiB, with environments behind services too, and at 512MiB without', () => {
    const { generations, steps, others } = planOf(1024, { queues: 2 });
    assert.deepEqual({ generations, steps, others }, { generations: 256, steps: 256, others: 64 });
    const smaller = planOf(512);
    assert.deepEqual([smaller.generations, smaller.others], [256, 38]);
    assert.deepEqual([planOf(1024).plays, smaller.plays], [2662, 308]);
    // Those in flight, and the slices of 10,000 rollouts.
    assert.ok(smaller.cached_workflows >= 256 + 79, `${smaller.cached_workflows}`);
  });

  test('adds up to no more than the setting, from 384MiB on', () => {
    const settings = fc.record({
      mib: fc.integer({ min: 384, max: 65_536 }),
      max_generations: fc.integer({ min: 1, max: 100_000 }),
      queues: fc.integer({ min: 1, max: 2 }),
    });
    fc.assert(
      fc.property(settings, ({ mib, ...more }) => {
        const bytes = fullBytes(planOf(mib, more), more.queues);
        assert.ok(bytes <= mib * MIB, `${bytes / MIB} MiB of ${mib}`);
      }),
    );
  });

  test('never shrinks as the setting grows', () => {
    const mib = fc.integer({ min: 0, max: 8192 });
    fc.assert(
      fc.property(mib, mib, (a, b) => {
        const more = { max_generations: 10_000, queues: 2 };
        const [small, large] = [planOf(Math.min(a, b), more), planOf(Math.max(a, b), more)];
        for (const name of Object.keys(small) as (keyof typeof small)[])
          assert.ok(small[name] <= large[name], name);
      }),
    );
  });

  test('is little, and never nothing, where the process alone takes all of it', () => {
    assert.deepEqual(planOf(0.1), {
      cached_workflows: 16,
      cached_fold_bytes: 0,
      played_fold_bytes: 0,
      answer_bytes: 0,
      reply_bytes: 0,
      request_bytes: 0,
      sample_bytes: Math.floor(0.05 * MIB),
      generations: 8,
      plays: 8,
      steps: 8,
      others: 8,
    });
    assert.equal(planOf(0.1, { max_generations: 2 }).generations, 2);
  });

  test('holds max_generations back where they would not fit, more so beside a queue of steps', () => {
    assert.equal(planOf(512, { max_generations: 1000 }).generations, 269);
    assert.equal(planOf(512, { max_generations: 1000, queues: 2 }).generations, 134);
    assert.equal(planOf(4096, { max_generations: 1000 }).generations, 1000);
  });
});

describe('what fits into a limit of open files', () => {
  test('is all of the default settings at 4096, and little at 256', () => {
    const { generations, steps, others } = planOf(1024, { queues: 2, open_files: 4096 });
    assert.deepEqual({ generations, steps, others }, { generations: 256, steps: 256, others: 64 });
    const few = planOf(1024, { open_files: 256 });
    assert.deepEqual([few.generations, few.others], [40, 8]);
  });

  test('adds up to no more than the limit, from the least that a worker needs on', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 200, max: 100_000 }),
        fc.integer({ min: 1, max: 2 }),
        (open_files, queues) => {
          const plan = planOf(65_536, { max_generations: 100_000, queues, open_files });
          const activities = plan.generations + (queues === 2 ? plan.steps : 0) + plan.others;
          const waiting = plan.plays - plan.generations;
          const journals = Math.min(activities + waiting, mostOpenJournals(open_files));
          assert.ok(
            112 + activities * 2 + waiting + journals <= open_files,
            `${activities} activities with ${open_files} files`,
          );
        },
      ),
    );
  });

  test('is nearly 10,000 turns at 20,000, as waiting ones have no journal open', () => {
    const { generations } = planOf(65_536, { max_generations: 100_000, open_files: 20_000 });
    assert.ok(generations >= 9700, `${generations}`);
  });

  test('is read from the kernel’s table', () => {
    const table = `Limit                     Soft Limit           Hard Limit           Units     
Max open files            256                  256                  files     
Max locked memory         8388608              8388608              bytes     
`;
    assert.equal(limitIn(table), 256);
    assert.equal(limitIn(table.replace('256 ', 'unlimited ')), Infinity);
    assert.equal(limitIn(''), Infinity);
    assert.ok(mostOpenFiles() > 0);
  });

  test('is said for worker and check with what it leaves, and leaves room for interpreters', () => {
    const config = Config.parse({ environments: { code: { kind: 'code' } } });
    assert.equal(cutByOpenFiles(config, 10_000), null);
    assert.equal(
      cutByOpenFiles(config, 512),
      'a process may open 512 files and connections: at most 80 rollouts, 80 generations and 80 steps of environments at once',
    );
    const [few, many] = [256, 10_000].map((files) => sandboxesAtOnce({ max_sandboxes: 64 }, files));
    assert.deepEqual([few, many], [10, 64]);
  });
});
