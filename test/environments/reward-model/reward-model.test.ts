import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EnvironmentMessage } from '../../../src/environments/environment.js';
import type { EnvironmentReturn } from '../../../src/environments/module/authoring.js';
import {
  createRewardModel,
  RewardModelSettings,
} from '../../../src/environments/reward-model/kind.js';
import { CONTEXT, metricsOf, said, stepEach, stepOne } from '../../fakes/environment-steps.js';
import { isNear, readGolden } from '../goldens.js';
import { answer, startServer, type Handler } from '../loopback-server.js';
import { faultOf } from '../../harness/fault-of.js';

interface Recorded {
  cases: {
    scores: number[];
    message_logs: EnvironmentMessage[][];
    expected: EnvironmentReturn & { rewards: number[]; next_stop_strings: unknown[] };
    global_metrics: Record<string, number | string>;
  }[];
}

const { cases } = readGolden('calculator', 'reward_model_env') as Recorded;
const log: EnvironmentMessage[] = [{ role: 'user', content: 'q' }, said('a')];

async function serve(handler: Handler, given: object = {}) {
  const { url, received } = await startServer(handler);
  const settings = RewardModelSettings.parse({ kind: 'reward_model', url, ...given });
  return { url, received, environment: createRewardModel(settings, { token: null }) };
}

/** What an answer of the service becomes: type and message without the URL. */
async function faultWith({
  status,
  body,
  ...given
}: {
  status: number;
  body: unknown;
  protocol?: string;
}): Promise<[type: string, message: string, retryable: boolean]> {
  const { url, environment } = await serve(answer(status, body), given);
  const { at, type, message, retryable } = await faultOf(stepOne(environment, { log }));
  assert.equal(at, url);
  return [type, message.replace(url, 'URL'), retryable];
}

describe('a reward model', () => {
  test('is sent whole conversations as they are, and its scores are the rewards', async () => {
    for (const { scores, message_logs, expected } of cases) {
      const left = [...scores];
      const { environment, received } = await serve((...exchange) => {
        answer(200, { scores: [left.shift()] })(...exchange);
      });
      const got = await stepEach(environment, { logs: message_logs, metadata: [] });
      assert.deepEqual(
        received.map(({ body }) => body),
        message_logs.map((one) => ({ message_logs: [one] })),
      );
      assert.ok(received[0] !== undefined);
      assert.equal(received[0].method, 'POST');
      assert.equal(received[0].headers['idempotency-key'], 'batch/0-0/0');
      assert.deepEqual((got.rewards as number[]).map(Math.fround), expected.rewards);
      assert.deepEqual(got.terminateds, expected.terminateds);
      assert.deepEqual(got.metadata, expected.metadata);
      assert.deepEqual(got.next_stop_strings, expected.next_stop_strings);
      assert.deepEqual(got.answers, expected.answers);
      assert.deepEqual(
        got.observations,
        scores.map((score) => ({ role: 'environment', content: `Environment: ${score}` })),
      );
    }
  });

  test('is told whose the step’s key is', async () => {
    const { environment, received } = await serve(answer(200, { scores: [1] }));
    await environment.step({ message_log: log, metadata: {} }, { ...CONTEXT, deployment: 'aa' });
    assert.equal(received[0]?.headers['rollout-deployment'], 'aa');
  });

  test('is asked at exactly its URL, with the key as a bearer token', async () => {
    const { url, received } = await startServer(answer(200, { scores: [1] }));
    const settings = RewardModelSettings.parse({ kind: 'reward_model', url: `${url}/rm/score/` });
    await stepOne(createRewardModel(settings, { token: { variable: 'KEY', value: 'k3y' } }), {
      log,
    });
    assert.equal(received[0]?.url, '/rm/score');
    assert.equal(received[0].headers.authorization, 'Bearer k3y');
  });

  test('is an environment without a health probe of its own', async () => {
    const { environment } = await serve(answer(200, { scores: [1] }));
    assert.ok(!('health' in environment));
  });

  test('that answers anything but as many finite scores as there are logs is rejected by field', async () => {
    const bad: [body: unknown, problem: string][] = [
      [{ scores: [] }, 'scores: expected 1, one per message log, got 0'],
      [{ scores: [1, 2] }, 'scores: expected 1, one per message log, got 2'],
      [{ scores: [null] }, 'scores.0: expected number, got null'],
      [{ scores: [[0.5]] }, 'scores.0: expected number, got [0.5]'],
      [{ score: [1] }, 'scores: expected array, got nothing; score: unknown field'],
      ['', '(body): expected JSON, got an empty body'],
      ['{"scores": [1e999]}', 'scores.0: expected number, got Infinity'],
    ];
    for (const [body, problem] of bad)
      assert.deepEqual(await faultWith({ status: 200, body }), [
        'EnvironmentRejected',
        `POST URL answered: ${problem}`,
        false,
      ]);
    const [, message] = await faultWith({ status: 200, body: '{"scores": [NaN]}' });
    assert.match(message, /^POST URL answered: \(body\): expected JSON, got SyntaxError: .*N/);
  });

  test('that is busy or broken is unavailable, one that refuses the input rejects it', async () => {
    const body = { error: { type: 'TooLong', message: 'too many tokens' } };
    for (const status of [408, 429, 502, 503, 504])
      assert.deepEqual(await faultWith({ status, body }), [
        'EnvironmentUnavailable',
        `POST URL answered ${status}: TooLong: too many tokens`,
        true,
      ]);
    assert.deepEqual((await faultWith({ status: 500, body })).slice(0, 1), ['EnvironmentFailed']);
    for (const status of [400, 401, 404, 422])
      assert.deepEqual(await faultWith({ status, body }), [
        'EnvironmentRejected',
        `POST URL answered ${status}: TooLong: too many tokens`,
        false,
      ]);
  });

  test('that does not answer in time is unavailable', async () => {
    const { environment } = await serve(() => undefined, { timeout: '50ms' });
    await assert.rejects(stepOne(environment, { log }), {
      type: 'EnvironmentUnavailable',
      message: /no answer within 50 ms$/,
    });
  });
});

describe('a reward model behind vLLM', () => {
  const classified = (...probs: unknown[]) => ({
    id: 'classify-1',
    object: 'list',
    model: 'rm',
    data: [{ index: 0, label: 'LABEL_0', probs, num_classes: probs.length }],
    usage: { prompt_tokens: 3, total_tokens: 3 },
  });

  test('is asked for the raw score of each conversation by itself', async () => {
    const { environment, received } = await serve(answer(200, classified(-1.25)), {
      protocol: 'vllm',
      model: 'rm',
    });
    const logs = [log, [said('b')]];
    const { rewards } = await stepEach(environment, { logs, metadata: [] });
    assert.deepEqual(rewards, [-1.25, -1.25]);
    assert.deepEqual(
      received.map(({ url, body }) => [url, body]),
      logs.map((messages) => ['/classify', { model: 'rm', messages, use_activation: false }]),
    );
    const unnamed = await serve(answer(200, classified(2)), { protocol: 'vllm' });
    await stepOne(unnamed.environment, { log });
    assert.deepEqual(unnamed.received[0]?.body, { messages: log, use_activation: false });
  });

  test('that classifies into several labels, or answers no data, is no reward model', async () => {
    const vllm = { protocol: 'vllm' };
    const [type, message] = await faultWith({ status: 200, body: classified(0.1, 0.9), ...vllm });
    assert.equal(type, 'EnvironmentRejected');
    assert.equal(
      message,
      'POST URL/classify answered: data.0.probs: expected one score, that of a model with a single label, got [0.1,0.9]',
    );
    assert.match(
      (await faultWith({ status: 200, body: { data: [] }, ...vllm }))[1],
      /answered: data: /,
    );
    assert.match(
      (await faultWith({ status: 200, body: classified('0.5'), ...vllm }))[1],
      /data\.0\.probs\.0: expected number, got "0\.5"$/,
    );
  });

  test('is healthy when its server says so', async () => {
    const { environment, received } = await serve(answer(200, ''), { protocol: 'vllm' });
    await environment.health?.(CONTEXT.signal);
    assert.equal(received[0]?.url, '/health');
    const down = await serve(answer(503, ''), { protocol: 'vllm' });
    await assert.rejects(down.environment.health!(CONTEXT.signal), {
      type: 'EnvironmentUnavailable',
    });
  });
});

describe('the metrics of a reward model', () => {
  test('are upstream’s float32 ones, but for the deviation of a single rollout, which is none', async () => {
    const { environment } = await serve(answer(500, ''));
    for (const { scores, global_metrics } of cases) {
      const metrics = await metricsOf(environment, scores);
      // Upstream's recording had no message logs to count.
      const expected = { ...global_metrics, 'reward_model_env/num_samples': scores.length };
      for (const [name, value] of Object.entries(expected)) {
        if (typeof value === 'string') assert.ok(!(name in metrics!), name);
        else assert.ok(isNear(metrics![name]!, { expected: value, relative: 1e-6 }), name);
      }
    }
    assert.equal(await metricsOf(environment, []), null);
  });
});
