import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createCodeJaccard } from '../../../src/environments/code-jaccard/kind.js';
import type { EnvironmentMessage } from '../../../src/environments/environment.js';
import type { EnvironmentReturn } from '../../../src/environments/module/authoring.js';
import { metricsOf, rejectionOf, said, stepEach, stepOne } from '../../fakes/environment-steps.js';
import { isNear, readGolden, readGoldens } from '../goldens.js';
import { processorTime_ms } from '../../harness/processor-time.js';

const environment = createCodeJaccard();

interface Scored {
  cases: { response: string; ground_truth: string; score: number; extracted_answer: string }[];
}

interface Stepped {
  message_logs: EnvironmentMessage[][];
  ground_truths: string[];
  expected: EnvironmentReturn & { rewards: number[] };
}

interface Measured {
  cases: { rewards: number[]; metrics: Record<string, number> }[];
}

describe('code similarity', () => {
  for (const [name, { cases }] of readGoldens<Scored>('jaccard', 'score_')) {
    test(`is upstream’s in ${name}`, async () => {
      for (const { response, ground_truth, score, extracted_answer } of cases) {
        const { reward, answer } = await stepOne(environment, {
          log: [said(response)],
          metadata: { ground_truth },
        });
        assert.ok(typeof reward === 'number');
        assert.ok(isNear(reward, { expected: score, relative: 1e-12 }), `${reward}, not ${score}`);
        assert.equal(answer, extracted_answer);
      }
    });
  }

  test('of texts of a megabyte is found in a moment', async () => {
    const response = Array.from({ length: 150_000 }, (_, i) => `w${i}`).join(' ');
    const began = processorTime_ms();
    const { reward } = await stepOne(environment, {
      log: [said(response)],
      metadata: { ground_truth: response.slice(0, -2) },
    });
    assert.ok((reward as number) > 0.99);
    assert.ok(processorTime_ms() - began < 2000);
  });
});

test('a step answers as upstream’s does, all assistant messages taken together', async () => {
  const { message_logs, ground_truths, expected } = readGolden('jaccard', 'env_step') as Stepped;
  const metadata = ground_truths.map((ground_truth) => ({ ground_truth, kept: true }));
  const answer = await stepEach(environment, { logs: message_logs, metadata });
  assert.deepEqual(answer.observations, expected.observations);
  assert.deepEqual(answer.metadata, metadata);
  assert.deepEqual(answer.terminateds.map(Number), expected.terminateds);
  assert.deepEqual(answer.next_stop_strings, expected.next_stop_strings);
  for (const [i, reward] of (answer.rewards as number[]).entries())
    assert.ok(isNear(reward, { expected: expected.rewards[i]!, relative: 1e-6 }));
});

test('its metrics are upstream’s float32 ones', async () => {
  for (const { rewards, metrics } of (readGolden('jaccard', 'metrics') as Measured).cases) {
    const got = await metricsOf(environment, rewards);
    assert.deepEqual(Object.keys(got ?? {}), Object.keys(metrics));
    for (const [name, expected] of Object.entries(metrics))
      assert.ok(isNear(got![name]!, { expected, relative: 1e-6 }), `${name}: ${got![name]}`);
  }
  assert.equal(await metricsOf(environment, []), null);
});

test('a ground truth that is missing or no text is rejected by its name', async () => {
  const reject = (metadata: Record<string, unknown>): Promise<string> =>
    rejectionOf(stepOne(environment, { log: [said('x')], metadata }));
  assert.equal(
    await reject({}),
    'code jaccard: extra_env_info of the sample: ground_truth: expected string, got nothing',
  );
  assert.match(await reject({ ground_truth: 4 }), /ground_truth: expected string, got 4$/);
  assert.match(
    await reject({ ground_truth: ['x'] }),
    /ground_truth: expected string, got \["x"\]$/,
  );
});
