import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { environmentMetrics } from '../../src/activities/close/environment-metrics.js';
import type { Environment, FinishedRollouts } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import type { Summary } from '../../src/model/results/summary.js';
import type { BatchOutputs } from '../../src/trajectories/trajectory-store.js';

type Metrics = NonNullable<Environment['globalPostProcessAndMetrics']>;

const TASKS = ['a', 'b', 'a', 'failed', 'b'];

/** Rows 0 to 4; the fourth did not end validly, and so has no line. */
function outputs(broken?: Fault): BatchOutputs {
  // eslint-disable-next-line @typescript-eslint/require-await -- a reader is asynchronous
  async function* lines(): AsyncGenerator<string> {
    if (broken) throw broken;
    for (const [row, task] of TASKS.entries())
      if (task !== 'failed')
        yield JSON.stringify({
          message_log: [{ role: 'user', content: task, token_ids: [1] }],
          total_reward: row,
          rewards: {},
          extra_env_info: {},
        });
  }
  return { readRollouts: lines } as unknown as BatchOutputs;
}

async function run(
  environments: Record<string, Metrics>,
  { patience_ms = 2000, broken }: { patience_ms?: number; broken?: Fault } = {},
) {
  const warnings: string[] = [];
  const metrics = await environmentMetrics({
    summaries: TASKS.map((task) => ({
      task_name: task === 'failed' ? 'a' : task,
      stop_reason: task === 'failed' ? 'failed' : 'terminated',
    })) as Summary[],
    outputs: outputs(broken),
    attempt: { signal: new AbortController().signal, warn: (text) => warnings.push(text) },
    environment: (task) =>
      environments[task] && {
        task_queue: 'q',
        is_asked: true,
        roles: null,
        plays_on: true,
        inPlace: (_, step) => step(),
        environment: {
          step: () => assert.fail('nothing is stepped'),
          globalPostProcessAndMetrics: environments[task],
        },
      },
    patience_ms,
  });
  return { metrics, warnings };
}

async function rewards(rollouts: FinishedRollouts): Promise<number> {
  let sum = 0;
  for await (const { total_reward } of rollouts) sum += total_reward;
  return sum;
}

const sum: Metrics = async (rollouts) => ({ sum: await rewards(rollouts) });
const away = new Fault({ type: 'EnvironmentUnavailable', message: 'refused' });

describe('metrics of environments', () => {
  test('are each over the valid rollouts of its own task', async () => {
    const { metrics, warnings } = await run({ a: sum, b: sum });
    assert.deepEqual(metrics, { 'env/a/sum': 2, 'env/b/sum': 5 });
    assert.deepEqual(warnings, []);
  });

  test('are asked for again where the environment was away', async () => {
    let asked = 0;
    const { metrics } = await run({
      a: async (rollouts, signal) => (++asked === 1 ? Promise.reject(away) : sum(rollouts, signal)),
    });
    assert.deepEqual(metrics, { 'env/a/sum': 2 });
  });

  for (const [what, bad] of [
    ['stays away', () => Promise.reject(away)],
    ['never answers', () => new Promise(() => undefined)],
    ['throws', () => Promise.reject(new Error('a bug'))],
    ['gives NaN', () => Promise.resolve({ x: NaN })],
  ] as [string, Metrics][]) {
    test(`that an environment which ${what} does not give leave those of others as they are`, async () => {
      const { metrics, warnings } = await run({ a: bad, b: sum }, { patience_ms: 400 });
      assert.deepEqual(metrics, { 'env/a/metrics_failed': 1, 'env/b/sum': 5 });
      assert.equal(warnings.length, 1);
    });
  }

  test('stay within their bounds', async () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`n${i}`.repeat(30), i]));
    const { metrics } = await run({ a: () => Promise.resolve(many) });
    assert.ok(Object.keys(metrics).length > 10 && JSON.stringify(metrics).length <= 4002);
  });

  test('are not blamed for what the store does', async () => {
    const broken = new Fault({ type: 'StoreFault', message: 'EIO' });
    await assert.rejects(run({ a: sum }, { broken }), broken);
  });
});
