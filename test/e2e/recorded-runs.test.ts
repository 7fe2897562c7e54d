import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { checkRun, recordedRuns, settingsOf } from '../activities/recorded-runs/suite.js';
import { startBatch } from '../../lab/bed/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';

/** One run of each shape, under each of upstream's semantics. test/activities/recorded-runs plays all of them. */
const SHAPES = [
  'empty_batch',
  'env_error_first_turn',
  'generation_error_second_turn',
  'interleaved_tasks',
  'many_turns',
  'real_math_batch',
  'real_puzzle_multi',
  'response_hits_max_new_tokens',
  'stop_string_updates_each_turn',
  'truncation_cut',
  'unknown_task',
];

describe('batches on a Temporal server come out as upstream recorded them', () => {
  const runs = (['nemo-rl-sync', 'nemo-rl-async', 'nemo-rl'] as const)
    .flatMap(recordedRuns)
    .filter(({ golden }) => SHAPES.includes(golden.name.replace(/\.[^.]+$/, '')));
  let bed: Testbed;

  before(async () => {
    bed = await startTestbed('recorded-runs');
    for (const kind of ['http', 'sliding_puzzle', 'math'] as const) {
      const ofKind = runs.filter((run) => run.kind === kind);
      const { engine, environment } = bed;
      const settings = await settingsOf(ofKind, { engine, url: environment.url });
      await bed.startWorker({ task_queue: kind, ...settings });
    }
  });
  after(async () => {
    await bed.end();
    assert.deepEqual([...bed.engine.problems, ...bed.environment.problems], []);
  });

  test('there are thirty-three', () => {
    assert.equal(runs.length, 3 * SHAPES.length);
  });

  describe('by name', { concurrency: 4 }, () => {
    for (const { golden, kind } of runs)
      test(golden.name, () =>
        checkRun(golden, {
          ...bed,
          playBatch: async (batch_id, request) => {
            const batch = await startBatch(
              bed.batch(batch_id, kind),
              request as Record<string, unknown>,
            );
            return await batch.outcome();
          },
        }),
      );
  });
});
