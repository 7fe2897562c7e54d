/** Bad input fails at once, names what is wrong, and leaves nothing half-done. */
import assert from 'node:assert/strict';
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { generateSamples } from '../../src/environments/sliding-puzzle/generate-samples.js';
import type { BatchOutcome } from '../harness/batch.js';
import { startBatch } from '../harness/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { PUZZLES, startTestbed } from '../harness/testbed.js';

const QUEUE = 'bad-input';
const [SAMPLE] = generateSamples({ count: 1, seed: 1, size: 2, shuffle_moves: 3, max_moves: 5 });

describe('a bad batch request', () => {
  let bed: Testbed;

  before(async () => {
    bed = await startTestbed('bad-input');
    const generation = await bed.simulate({ default: { thinking_tokens: 2, seed: 1 } });
    const { inputs_dir } = bed;
    await writeFile(path.join(bed.directory, 'outside.jsonl'), `${JSON.stringify(SAMPLE)}\n`);
    await symlink(path.join(bed.directory, 'outside.jsonl'), path.join(inputs_dir, 'link.jsonl'));
    await writeFile(path.join(inputs_dir, 'empty.jsonl'), '');
    await writeFile(
      path.join(inputs_dir, 'torn.jsonl'),
      `${JSON.stringify(SAMPLE)}\n{"message_log": [{"ro`,
    );
    await writeFile(
      path.join(inputs_dir, 'digits.jsonl'),
      `${JSON.stringify(SAMPLE).slice(0, -1)},"seed":9007199254740993}\n`,
    );
    await mkdir(path.join(inputs_dir, 'folder.jsonl'));
    await bed.startWorker({
      task_queue: QUEUE,
      generation,
      environments: PUZZLES,
    });
  });
  after(() => bed.end());

  let serial = 0;
  const run = async (request: unknown, batch_id = `bad-${++serial}`): Promise<BatchOutcome> => {
    const batch = await startBatch(bed.batch(batch_id, QUEUE), request as Record<string, unknown>);
    return await batch.outcome();
  };

  const samples = [SAMPLE];
  const cases: { what: string; request: unknown; says: RegExp }[] = [
    { what: 'an unknown field', request: { samples, repeats: 2 }, says: /repeats: unknown field/ },
    {
      what: 'an unknown field of generation',
      request: { samples, generation: { topp: 1 } },
      says: /generation\.topp: unknown field/,
    },
    {
      what: 'a wrong type',
      request: { samples, limit: 'ten' },
      says: /limit: expected number, got "ten"/,
    },
    { what: 'no object', request: 'samples.jsonl', says: /expected object, got "samples\.jsonl"/ },
    { what: 'nothing', request: null, says: /expected object, got null/ },
    { what: 'no samples', request: {}, says: /samples: / },
    {
      what: 'an empty batch',
      request: { samples: [] },
      says: /samples: expected at least one sample/,
    },
    {
      what: 'an empty file',
      request: { samples: { path: 'empty.jsonl' } },
      says: /expected at least one sample/,
    },
    {
      what: 'an unknown task',
      request: { samples: [{ ...SAMPLE, task_name: 'chess' }] },
      says: /samples row 0: task_name: No environment found for task type: chess; expected one of sliding_puzzle/,
    },
    {
      what: 'a missing file',
      request: { samples: { path: 'none.jsonl' } },
      says: /samples\.path: cannot read "none\.jsonl" below inputs_dir/,
    },
    {
      what: 'a path outside inputs_dir',
      request: { samples: { path: '../outside.jsonl' } },
      says: /samples\.path: expected a file below inputs_dir, got "\.\.\/outside\.jsonl"/,
    },
    {
      what: 'an absolute path outside inputs_dir',
      request: { samples: { path: '/etc/hostname' } },
      says: /samples\.path: expected a file below inputs_dir/,
    },
    {
      what: 'a link out of inputs_dir',
      request: { samples: { path: 'link.jsonl' } },
      says: /samples\.path: expected a file below inputs_dir, got a link out of it/,
    },
    { what: 'a directory', request: { samples: { path: 'folder.jsonl' } }, says: /folder\.jsonl/ },
    {
      what: 'an empty prompt',
      request: { samples: [{ ...SAMPLE, message_log: [] }] },
      says: /samples row 0: message_log: expected at least one message/,
    },
    {
      what: 'num_repeats 0',
      request: { samples, num_repeats: 0 },
      says: /num_repeats: .*1.*got 0/,
    },
    {
      what: 'num_repeats 301',
      request: { samples, num_repeats: 301 },
      says: /num_repeats: .*300.*got 301/,
    },
    {
      what: 'a torn line',
      request: { samples: { path: 'torn.jsonl' } },
      says: /samples row 1 \(torn\.jsonl:2\): expected a JSON object, got/,
    },
    {
      what: 'an integer beyond 2^53',
      request: { samples: { path: 'digits.jsonl' } },
      says: /samples row 0.*9007199254740993/,
    },
    {
      what: 'a column of the row',
      request: { samples: [{ ...SAMPLE, total_reward: 1 }] },
      says: /samples row 0: total_reward: /,
    },
    {
      what: 'a wrong model',
      request: { samples, generation: { model: 'llama' } },
      says: /generation\.model: expected a model that .* serves \("simulator"\), got "llama"/,
    },
    {
      what: 'an unknown service',
      request: { samples, generation: { service: 'fast' } },
      says: /generation\.service: expected one of default, got "fast"/,
    },
    {
      what: 'max_seq_len beyond the model',
      request: { samples, max_seq_len: 9000 },
      says: /max_seq_len: expected at most the model's max_model_len 8192, got 9000/,
    },
    {
      what: 'a duration without unit',
      request: { samples, rollout_timeout: '90' },
      says: /rollout_timeout: expected a duration/,
    },
    {
      what: 'a seed twice',
      request: { samples, num_repeats_add_seed: true, generation: { seed: 3 } },
      says: /generation\.seed: expected null/,
    },
  ];
  for (const { what, request, says } of cases) {
    test(`${what} is InvalidBatchRequest, and nothing is written`, async () => {
      const before = await readdir(bed.store_root).catch(() => []);
      const { result, failure } = await run(request);
      assert.equal(result, null);
      assert.equal(failure?.type, 'InvalidBatchRequest');
      assert.match(failure.message, says);
      assert.ok(Buffer.byteLength(failure.message) < 3000);
      assert.deepEqual(await readdir(bed.store_root).catch(() => []), before);
    });
  }

  for (const batchId of ['..', 'a/b', '-x', 'x'.repeat(121)]) {
    test(`batch id ${JSON.stringify(batchId.slice(0, 20))} is refused`, async () => {
      const { failure } = await run({ samples }, batchId);
      assert.equal(failure?.type, 'InvalidBatchRequest');
      assert.match(failure.message, /workflow id: expected a batch id/);
    });
  }

  test('at most ten problems are listed, then that there are more', async () => {
    const many = Array.from({ length: 40 }, (_, i) => ({ ...SAMPLE, task_name: `chess-${i}` }));
    const { failure } = await run({ samples: many });
    assert.equal(failure?.message.match(/task type: chess/g)?.length, 10);
    assert.match(failure.message, /… and/);
  });

  test('a batch id that names another request is refused and names the first difference', async () => {
    const request = { samples, max_rollout_turns: 1 };
    const first = await run(request, 'taken');
    assert.equal(first.result?.counts.completed, 1);
    const { failure } = await run({ ...request, generation: { temperature: 0.5 } }, 'taken');
    assert.equal(failure?.type, 'InvalidBatchRequest');
    assert.match(failure.message, /generation\.temperature: the batch of this id has 1, got 0\.5/);
    const changed = await run({ ...request, samples: [{ ...SAMPLE, idx: 5 }] }, 'taken');
    assert.match(changed.failure?.message ?? '', /samples/);
    const again = await run(request, 'taken');
    assert.deepEqual(again.rollouts, first.rollouts);
  });
});
