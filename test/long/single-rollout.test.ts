import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { readJournal, startSingleRollout } from '../../lab/bed/batch.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { encode } from '../servers/characters.js';
import type { Step } from '../servers/scripts.js';

const TASK_QUEUE = 'single-rollouts';

/** A policy that says two things and an environment that ends it after the second. */
const GENERATION = [
  [
    { text: 'left#', eos: true },
    { text: 'right', eos: true },
  ],
];
const STEPS: Step[][] = [
  [
    {
      observation: { role: 'environment', content: 'wall' },
      reward: 0.25,
      terminated: false,
      metadata: { moves: 1 },
      stop_strings: null,
    },
    {
      observation: { role: 'environment', content: 'done' },
      reward: 1,
      terminated: true,
      metadata: { moves: 2 },
      stop_strings: null,
    },
  ],
];

const SAMPLE = {
  message_log: [
    { role: 'system', content: 'play' },
    { role: 'user', content: 'go' },
  ],
  task_name: 'maze',
  extra_env_info: { moves: 0 },
  stop_strings: ['#'],
  difficulty: 'easy',
};

describe('a rollout that is started by hand', () => {
  let bed: Testbed | undefined;

  before(async () => {
    bed = await startTestbed('single-rollout');
    await bed.startWorker({
      task_queue: TASK_QUEUE,
      generation: { default: { kind: 'vllm', base_urls: [await bed.engine.listen(200)] } },
      environments: { maze: { kind: 'http', url: bed.environment.url, timeout: '10s' } },
    });
  });
  after(async () => {
    if (bed === undefined) return;
    await bed.end();
    assert.deepEqual([...bed.engine.problems, ...bed.environment.problems], []);
  });

  const run = async (
    id: string,
    { steps = STEPS, ...request }: Record<string, unknown> & { steps?: Step[][] },
  ): Promise<BatchOutcome> => {
    bed!.engine.script(id, { generation: GENERATION });
    bed!.environment.script(id, { steps });
    const started = await startSingleRollout(bed!.batch(id, TASK_QUEUE), request);
    return await started.outcome();
  };

  test('is a batch of one: it returns the batch result, and its files hold its row', async () => {
    const id = 'by-hand';
    const metadata = { experiment: 'seven' };
    const { result, failure, rollouts, failures } = await run(id, {
      sample: SAMPLE,
      max_seq_len: 200,
      metadata,
    });
    assert.equal(failure, null);
    const folder = path.join(bed!.store_root, id);
    const { metrics, ...others } = result!;
    assert.deepEqual(others, {
      schema_version: 1,
      batch_id: id,
      counts: { requested: 1, completed: 1, failed: 0, timed_out: 0, stopped: 0, cancelled: 0 },
      files: {
        rollouts: path.join(folder, 'rollouts.jsonl'),
        failures: path.join(folder, 'failures.jsonl'),
        groups: path.join(folder, 'groups.jsonl'),
        metrics: path.join(folder, 'metrics.json'),
      },
      metadata,
    });
    assert.equal(metrics['mean_total_reward'], 1.25);
    assert.deepEqual(failures, []);
    assert.equal(rollouts.length, 1);
  });

  test('has the rollout id `<workflow id>/0-0` in its row and on every wire', async () => {
    const id = 'names';
    const { rollouts } = await run(id, { sample: SAMPLE, max_seq_len: 200 });
    const [row] = rollouts;
    assert.equal(row?.rollout_id, 'names/0-0');
    assert.deepEqual([row.batch_id, row.row, row.repeat], [id, 0, 0]);
    // The servers refuse requests whose headers do not name a turn of a scripted rollout.
    assert.deepEqual(
      bed!.engine.requests(id).map(({ row, repeat, turn }) => [row, repeat, turn]),
      [
        [0, 0, 0],
        [0, 0, 1],
      ],
    );
    assert.deepEqual(
      bed!.environment.steps(id).map(({ key }) => key),
      ['names/0-0/0', 'names/0-0/1'],
    );
  });

  test('renders its prompt by the service and keeps what the sample brought', async () => {
    const { rollouts } = await run('rendered', { sample: SAMPLE, max_seq_len: 200 });
    const [row] = rollouts;
    assert.deepEqual(
      row?.message_log.map(({ role, content, token_ids }) => ({ role, content, token_ids })),
      [
        { role: 'system', content: 'play', token_ids: encode('<system>play') },
        { role: 'user', content: 'go', token_ids: encode('<user>go<assistant>') },
        { role: 'assistant', content: 'left#', token_ids: encode('left#') },
        { role: 'environment', content: 'wall', token_ids: encode('<environment>wall<assistant>') },
        { role: 'assistant', content: 'right', token_ids: [...encode('right'), 1] },
        { role: 'environment', content: 'done', token_ids: encode('<environment>done<assistant>') },
      ],
    );
    assert.equal(row['difficulty'], 'easy');
    assert.deepEqual([row.stop_reason, row.terminated, row.turn_count], ['terminated', true, 2]);
  });

  test('fails with InvalidBatchRequest that names an unknown field', async () => {
    const { failure } = await run('unknown-field', { sample: SAMPLE, max_turns: 3 });
    assert.equal(failure?.type, 'InvalidBatchRequest');
    assert.match(failure.message, /max_turns: unknown field/);
    assert.deepEqual(bed!.engine.requests('unknown-field'), []);
  });

  test('fails with InvalidBatchRequest that names a field of its sample', async () => {
    const sample = { ...SAMPLE, stop_strings: '#' };
    const { failure } = await run('bad-sample', { sample });
    assert.equal(failure?.type, 'InvalidBatchRequest');
    assert.match(failure.message, /sample\.stop_strings: expected .*array.*got "#"/);
  });

  test('fails with its fault, and its row keeps the whole turns and the unanswered generation', async () => {
    const id = 'rejected';
    const raise = { type: 'ValueError', message: 'no such move' };
    const { failure, failures } = await run(id, {
      sample: SAMPLE,
      max_seq_len: 200,
      steps: [[STEPS[0]![0]!, { raise }]],
    });
    assert.equal(failure?.type, 'EnvironmentRejected');
    assert.match(failure.message, /answered 400: ValueError: no such move$/);
    const [row] = failures;
    assert.deepEqual(
      [row?.rollout_id, row?.turn_count, row?.total_reward],
      ['rejected/0-0', 1, 0.25],
    );
    assert.deepEqual(row?.failure, { ...failure, turn: 1 });
    assert.deepEqual(
      row.message_log.slice(2).map(({ content, partial }) => [content, partial ?? false]),
      [
        ['left#', false],
        ['wall', false],
        ['right', true],
      ],
    );
  });

  test('whose prompt leaves no room fails with PromptTooLong, and its row is in failures.jsonl', async () => {
    const id = 'too-long';
    // `<system>play<user>go<assistant>` is 31 tokens.
    const { failure, rollouts, failures } = await run(id, { sample: SAMPLE, max_seq_len: 31 });
    const message = 'the prompt has 31 tokens, expected fewer than max_seq_len 31';
    assert.deepEqual(failure, { type: 'PromptTooLong', message });
    const lines = await readJournal(bed!.store_root, { batch_id: id, row: 0, repeat: 0 });
    assert.deepEqual(
      lines.filter(({ kind }) => kind !== 'claim').map(({ kind }) => kind),
      ['fault', 'end'],
    );
    assert.deepEqual(rollouts, []);
    assert.deepEqual(
      failures.map((row) => [row.rollout_id, row.stop_reason, row.failure]),
      [['too-long/0-0', 'failed', { type: 'PromptTooLong', message, turn: 0 }]],
    );
    assert.deepEqual(bed!.engine.requests(id), []);
  });
});
