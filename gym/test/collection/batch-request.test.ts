import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import {
  checkSize,
  aboutParallel,
  inFlight,
  newBatchId,
  parallelOf,
  folderFor,
  queueFor,
  requestOf,
  samplesFile,
  sampleOf,
  writeSamples,
} from '../../collection/start/batch-request.js';
import type { CollectionState } from '../../collection/state.js';
import { AgentSample } from '../../../src/model/agent/sample.js';
import { BatchId, BatchRequest } from '../../../src/model/batch-request.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';
import { gymRow } from '../rows.js';

const settings = { environment: 'nemo_gym', max_attempts: 3, run_timeout: '30m' };

interface Written {
  task_name: string;
  message_log: unknown[];
  extra_env_info: Record<string, unknown>;
}
const sample = (text: string): Written => JSON.parse(text) as Written;

test('a row is a sample that an agent plays, its text as it was written', () => {
  const row = gymRow({ task: 3, rollout: 1 }, { fields: '{"id":9007199254740993,"t":1.0}' });
  const { task_name, message_log, extra_env_info } = sample(sampleOf(row, settings));
  assert.deepEqual([task_name, message_log], ['nemo_gym', []]);
  const parsed = AgentSample.parse(extra_env_info);
  assert.deepEqual(
    { ...parsed, row: '' },
    {
      agent: 'simple_agent',
      task_index: 3,
      rollout_index: 1,
      attempt_index: 0,
      max_attempts: 3,
      timeout: '30m',
      row: '',
    },
  );
  assert.match(parsed.row, /"id":9007199254740993,"t":1\.0\}$/);
});

test('the failures before the batch are the sample’s, and not stamped on the row: each run stamps its own', () => {
  const row = gymRow({ task: 0, rollout: 0 }, { attempt: 2, fields: '{"_ng_attempt_index":2}' });
  const { extra_env_info } = sample(sampleOf(row, settings));
  assert.equal(extra_env_info['attempt_index'], 2);
  assert.equal(extra_env_info['max_attempts'], 5, 'it has all its tries again');
  assert.ok(!String(extra_env_info['row']).includes('_ng_attempt_index'));
});

test('a samples file has one line a row, also where a row holds line separators', async (t) => {
  const inputs_dir = await temporaryFolder(t);
  const rows = [
    gymRow({ task: 0, rollout: 0 }, { fields: '{"text":"a\u2028b\u2029c"}' }),
    gymRow({ task: 1, rollout: 0 }),
  ];
  await writeSamples(rows, { ...settings, inputs_dir, batch_id: 'b-1' });
  const text = await readFile(samplesFile({ inputs_dir }, 'b-1'), 'utf8');
  assert.equal(text.split('\n').length, 3);
  const [first = ''] = text.split('\n');
  const row = JSON.parse(String(sample(first).extra_env_info['row'])) as { text: string };
  assert.equal(row.text, 'a\u2028b\u2029c');
  const request = BatchRequest.parse(
    requestOf({
      batch_id: 'b-1',
      num_samples_in_parallel: null,
      rollout_timeout: '7d',
      output: '/out.jsonl',
    }),
  );
  assert.deepEqual(request.samples, { path: path.join('collections', 'b-1.jsonl') });
  assert.equal(request.max_in_flight, 1024);
  assert.equal(request.rollout_workflows, false);
});

test('no limit of upstream’s is a large one here', () => {
  assert.deepEqual([null, 1, 1000].map(inFlight), [1024, 1, 1000]);
});

test('the smaller of two limits holds, and none is no limit', () => {
  const of = (num_samples_in_parallel: number | null, max_resident_rollout_tasks: number | null) =>
    parallelOf({ num_samples_in_parallel, max_resident_rollout_tasks });
  assert.deepEqual([of(8, 4), of(4, 8), of(0, 4), of(null, 4), of(4, null)], [4, 4, 4, 4, 4]);
  assert.deepEqual([of(null, null), of(0, null)], [null, null]);
});

test('what no limit means is said, and that one worker plays fewer rows', () => {
  const cut =
    /^num_samples_in_parallel is unlimited: 1024 of 5000 rows at once, .*\+num_samples_in_parallel=N for more$/;
  const hint = /^A worker plays at most 256 rows at once: for more of them, /;
  const [first = '', second = '', ...more] = aboutParallel(null, { rows: 5000, isLocal: false });
  assert.match(first, cut);
  assert.match(second, hint);
  assert.deepEqual(more, []);
  assert.deepEqual(aboutParallel(null, { rows: 200, isLocal: true }), []);
  assert.deepEqual(aboutParallel(64, { rows: 5000, isLocal: true }), [
    'Querying with 64 concurrent requests',
  ]);
  assert.match(aboutParallel(300, { rows: 5000, isLocal: true })[1] ?? '', hint);
});

test('a batch is named after its output file, whatever that is called', () => {
  for (const output of [
    'out/results.jsonl',
    '/a b/ä?.jsonl',
    '.jsonl',
    `${'x'.repeat(300)}.jsonl`,
  ]) {
    const id = newBatchId(output);
    assert.ok(BatchId.safeParse(id).success, id);
    assert.notEqual(newBatchId(output), id);
  }
  assert.match(newBatchId('out/results.jsonl'), /^results-\d{8}T\d{6}Z-[0-9a-f]{4}$/);
});

test('each output file has a queue of its own in a local stack', () => {
  const queue = (output: string) =>
    queueFor({ earlier: null, is_ours: false }, { output, store_root: '/s' });
  assert.equal(queue('/a/out.jsonl'), queue('/a/../a/out.jsonl'));
  assert.notEqual(queue('/a/out.jsonl'), queue('/b/out.jsonl'));
});

test('a collection whose files were moved keeps the queue of its batch in its stack, and only there', () => {
  const earlier: CollectionState = {
    schema_version: 1,
    folder: '/work/.rollouts/out-1',
    batch_id: 'b',
    task_queue: 'collect-before',
    store_root: '/s',
    rows_sha256: '',
    request: {},
    rows: [],
    max_attempts: 3,
    failures_from: 0,
  };
  const queue = (is_ours: boolean, store_root: string) =>
    queueFor({ earlier, is_ours }, { output: '/b/out.jsonl', store_root });
  assert.equal(queue(true, '/s'), 'collect-before');
  assert.match(queue(false, '/s'), /^collect-[0-9a-f]{12}$/);
  assert.match(queue(true, '/other'), /^collect-[0-9a-f]{12}$/);
  const folder = (before: string | null, output: string) =>
    folderFor(before, { output, below: '/work/.rollouts' });
  assert.equal(folder('/work/.rollouts/out-1', '/b/out.jsonl'), '/work/.rollouts/out-1');
  assert.match(folder(null, '/b/out.jsonl'), /^\/work\/\.rollouts\/out-[0-9a-f]{8}$/);
  assert.notEqual(folder(null, '/b/out.jsonl'), folder(null, '/c/out.jsonl'));
});

test('more rows than a batch can have are refused with what to do', () => {
  assert.throws(() => {
    checkSize(1_000_000);
  }, /at most 75600 rows in one collection, got 1000000: split the input into shards/);
});
