import assert from 'node:assert/strict';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import type { LogprobsMode } from '../../src/model/logprobs-mode.js';
import type { Bench, FailureSeen, Parts } from '../fakes/activity-bench.js';
import { STORE_MEMO, TASKS_MEMO } from '../../src/activities/contract/one-deployment.js';
import { refusedKey } from '../../src/model/refused-key.js';
import { activityBench } from '../fakes/activity-bench.js';
import { scriptedService } from '../fakes/scripted-service.js';
import { BATCH, sampleOf } from '../fakes/temporary-store.js';

const SAMPLE = JSON.parse(sampleOf('go')) as object;

async function plan(bench: Bench, input: unknown) {
  const { result, error } = await bench.run('planBatch', { input, workflow_id: BATCH });
  if (error !== undefined) throw error as Error;
  return result;
}

/** The message of a refused request. */
async function refusal(
  bench: Bench,
  { workflow_id = BATCH, ...request }: { input: unknown; workflow_id?: string },
): Promise<string> {
  const { error } = await bench.run('planBatch', { ...request, workflow_id });
  const { type, message, nonRetryable } = error as FailureSeen;
  assert.deepEqual([type, nonRetryable], ['InvalidBatchRequest', true], message);
  assert.equal(await bench.store.findRequest(BATCH), null, 'something was written');
  return message;
}

const replica = (url: string, models: { id: string; max_model_len: number | null }[]) =>
  scriptedService([], { replica: url, describe: () => Promise.resolve({ models, version: null }) });

describe('a batch that is planned', () => {
  test('is in the store, and the plan has counts and slices, never samples', async (t) => {
    const bench = await activityBench(t);
    const samples = Array.from({ length: 4 }, (_, row) => ({ ...SAMPLE, column: row }));
    const input = { samples, num_repeats: 40, max_in_flight: 7 };
    assert.deepEqual(await plan(bench, input), {
      batch_id: BATCH,
      samples: 4,
      num_repeats: 40,
      slices: [
        { first: 0, last: 2 },
        { first: 3, last: 3 },
      ],
      tallies: 10,
      max_in_flight: 7,
      priority: { priorityKey: 3, fairnessKey: BATCH, fairnessWeight: 1 },
      heartbeat_timeout_ms: 100,
      limits: {
        max_rollout_turns: 100,
        max_new_tokens: 512,
        max_seq_len: 4096,
        rollout_timeout: '1h',
      },
      min_k: null,
      refill: null,
      logprobs_mode: 'processed',
      min_valid: 1,
      continued: false,
      looks: true,
      memo: { [STORE_MEMO]: await bench.dependencies.storeId(), [TASKS_MEMO]: ['task'] },
    });
    assert.equal(await bench.store.sampleCount(BATCH), 4);
    assert.equal((await bench.store.readSample({ batch_id: BATCH, row: 3 }))['column'], 3);
  });

  test('twice continues: it waits until no rollout of the earlier run is open', async (t) => {
    const open = [2, 1, 0];
    const asked: string[] = [];
    const bench = await activityBench(t, {
      countOpenRollouts: (batchId) => {
        asked.push(batchId);
        return Promise.resolve(open.shift() ?? assert.fail('asked once more'));
      },
    });
    const first = await plan(bench, { samples: [SAMPLE] });
    assert.deepEqual(asked, []);
    assert.deepEqual(await plan(bench, { samples: [SAMPLE] }), { ...first, continued: true });
    assert.deepEqual(asked, [BATCH, BATCH, BATCH]);
  });

  test('twice opens again what was closed', async (t) => {
    const bench = await activityBench(t);
    await plan(bench, { samples: [SAMPLE] });
    const { files } = await bench.result('closeBatch', { batch_id: BATCH, stopped: false });
    await stat(files.metrics);
    await plan(bench, { samples: [SAMPLE] });
    await assert.rejects(stat(files.metrics), /ENOENT/);
  });

  test('again with another request is refused, and what was there stays', async (t) => {
    const bench = await activityBench(t);
    await plan(bench, { samples: [SAMPLE] });
    await assert.rejects(
      plan(bench, { samples: [SAMPLE], max_seq_len: 100 }),
      /max_seq_len: the batch of this id has 4096, got 100; use another batch id/,
    );
    assert.equal((await bench.store.findRequest(BATCH))?.max_seq_len, 4096);
  });

  test('reads only its first samples with a limit', async (t) => {
    const bench = await activityBench(t);
    const samples = [SAMPLE, { ...SAMPLE, column: 1 }, { broken: true }];
    assert.equal((await plan(bench, { samples, limit: 2 }))?.samples, 2);
  });
});

describe('the model', () => {
  const modelOf = async (bench: Bench, generation = {}) => {
    await plan(bench, { samples: [SAMPLE], generation });
    return (await bench.store.findRequest(BATCH))?.generation.model;
  };
  const two = replica('http://a', [
    { id: 'base', max_model_len: 5000 },
    { id: 'adapter', max_model_len: 5000 },
  ]);

  test('is the request’s, else the deployment’s, else the service’s first', async (t) => {
    const served = (model: string | null) => activityBench(t, { replicas: [two], model });
    assert.equal(await modelOf(await served(null)), 'base');
    assert.equal(await modelOf(await served('adapter')), 'adapter');
    assert.equal(await modelOf(await served('base'), { model: 'adapter' }), 'adapter');
  });

  test('that a service does not serve is refused, with those that it serves', async (t) => {
    const bench = await activityBench(t, { replicas: [two] });
    const message = await refusal(bench, {
      input: { samples: [SAMPLE], generation: { model: 'gpt' } },
    });
    assert.equal(
      message,
      'generation.model: expected a model that http://a serves ("base", "adapter"), got "gpt"',
    );
  });

  test('that a service does not serve is sought where it was named: in temporal.yaml', async (t) => {
    const bench = await activityBench(t, { replicas: [two], model: 'gpt' });
    const message = await refusal(bench, { input: { samples: [SAMPLE] } });
    assert.match(message, /^generation\.default\.model of temporal\.yaml: expected a model that /);
  });

  test('of an engine that refuses the key is asked for in the words of `check`', async (t) => {
    const refused = new Fault({
      type: 'GenerationRejected',
      message: 'http://a: GET /v1/models: 401',
      status: 401,
    });
    const locked = { ...two, describe: () => Promise.reject(refused) };
    const bench = await activityBench(t, { replicas: [locked] });
    const asked = { input: { samples: [SAMPLE] }, workflow_id: BATCH };
    const { error } = await bench.run('planBatch', asked);
    const { type, message, nonRetryable } = error as FailureSeen;
    assert.deepEqual([type, nonRetryable], ['GenerationRejected', true]);
    const remedy = refusedKey(401, { api_key_env: null }) ?? 'none';
    assert.equal(message, `http://a: GET /v1/models: 401; ${remedy}`);
  });

  test('has to be served by every replica that answers', async (t) => {
    const replicas = [two, replica('http://b', [{ id: 'other', max_model_len: null }])];
    const bench = await activityBench(t, { replicas });
    assert.match(
      await refusal(bench, { input: { samples: [SAMPLE] } }),
      /expected a model that http:\/\/b serves \("other"\), got "base"/,
    );
  });

  test('limits max_seq_len, the smallest of the replicas', async (t) => {
    const replicas = [two, replica('http://b', [{ id: 'base', max_model_len: 3000 }])];
    const bench = await activityBench(t, { replicas });
    const message = await refusal(bench, { input: { samples: [SAMPLE] } });
    assert.equal(message, "max_seq_len: expected at most the model's max_model_len 3000, got 4096");
    await plan(bench, { samples: [SAMPLE], max_seq_len: 3000 });
  });

  test('of a service that says no limit has none', async (t) => {
    const unlimited = replica('http://b', [{ id: 'base', max_model_len: null }]);
    const bench = await activityBench(t, { replicas: [unlimited] });
    await plan(bench, { samples: [SAMPLE], max_seq_len: 1_000_000 });
  });

  const absent = (url: string) => {
    const away = new Fault({ type: 'GenerationUnavailable', message: 'refused', at: url });
    return scriptedService([], { replica: url, describe: () => Promise.reject(away) });
  };

  test('is that of the available replicas', async (t) => {
    const bench = await activityBench(t, { replicas: [absent('http://b'), two] });
    assert.equal(await modelOf(bench), 'base');
  });

  test('is waited for while all replicas are away', async (t) => {
    const bench = await activityBench(t, { replicas: [absent('http://b'), absent('http://c')] });
    const { error, waiting } = await bench.run('planBatch', {
      input: { samples: [SAMPLE] },
      workflow_id: BATCH,
    });
    const { type, nonRetryable } = error as FailureSeen;
    assert.deepEqual([type, nonRetryable], ['GenerationUnavailable', false]);
    const [{ since = '', ...told } = assert.fail()] = waiting.map((one) => one ?? undefined);
    assert.match(since, / UTC$/);
    assert.deepEqual(told, { service: 'http://b', message: 'refused', tries: 1 });
    assert.equal(await bench.store.findRequest(BATCH), null);
  });
});

describe('the policy version that a batch expects', () => {
  const serving = (url: string, version: string | null) =>
    scriptedService([], { replica: url, weightVersion: () => version });
  const input = { samples: [SAMPLE], policy_version: '17' };

  test('is that of every replica, or the batch is refused: each other one with its label', async (t) => {
    const replicas = [
      serving('http://a', '17'),
      serving('http://b', '16'),
      serving('http://c', 'default'),
    ];
    const bench = await activityBench(t, { replicas });
    assert.equal(
      await refusal(bench, { input }),
      'policy_version: expected that http://b serves "17", got "16"\npolicy_version: expected that http://c serves "17", got "default"',
    );
  });

  test('is taken where replicas serve it or do not say, which is said in the log', async (t) => {
    const replicas = [serving('http://a', '17'), serving('http://b', null)];
    const bench = await activityBench(t, { replicas });
    const { error, warnings } = await bench.run('planBatch', { input, workflow_id: BATCH });
    assert.equal(error, undefined);
    assert.equal(warnings.length, 1);
    assert.match(
      warnings[0]!,
      /^http:\/\/b does not say which weights it serves, expected policy_version "17"/,
    );
  });

  test('is not asked for where the batch expects none', async (t) => {
    const failing = (): never => {
      throw new Error('not to be asked');
    };
    const bench = await activityBench(t, {
      replicas: [scriptedService([], { weightVersion: failing })],
    });
    await plan(bench, { samples: [SAMPLE] });
  });
});

describe('the logprobs of a batch', () => {
  const modes = (logprobs_modes: Record<string, LogprobsMode>) => ({
    replicas: Object.keys(logprobs_modes).map((url) => scriptedService([], { replica: url })),
    logprobs_modes,
  });
  const planned = async (
    t: TestContext,
    { generation = {}, ...parts }: Parts & { generation?: object },
  ) => {
    const bench = await activityBench(t, parts);
    const input = { samples: [SAMPLE], generation };
    return await bench.run('planBatch', { input, workflow_id: BATCH });
  };

  const RAW = modes({ 'http://a': 'processed', 'http://b': 'raw' });
  for (const [generation, fields] of [
    [{ temperature: 0.7 }, 'temperature'],
    [{ top_p: 0.9, top_k: 40, min_p: 0.1 }, 'top_p, top_k, min_p'],
    [
      { repetition_penalty: 1.1, presence_penalty: 1, frequency_penalty: 1 },
      'repetition_penalty, presence_penalty, frequency_penalty',
    ],
    [{ greedy: true, temperature: 0.7, min_tokens: 3 }, 'min_tokens'],
    [{ bad_words: ['left'] }, 'bad_words'],
  ] as const) {
    test(`of a raw engine are refused under ${fields}, with what to do`, async (t) => {
      const bench = await activityBench(t, RAW);
      assert.equal(
        await refusal(bench, { input: { samples: [SAMPLE], generation } }),
        `generation.logprobs_mode: expected processed logprobs, got raw ones from http://b: they are of the distribution before ${fields}; start vLLM with --logprobs-mode processed_logprobs, SGLang without SGLANG_RETURN_ORIGINAL_LOGPROB, or ask for "raw"`,
      );
    });
  }

  for (const [what, generation] of [
    ['nothing changes the distribution', {}],
    [
      'the batch is greedy: both modes give the same',
      { greedy: true, temperature: 0.7, top_p: 0.5 },
    ],
    ['temperature is 0', { temperature: 0, top_k: 5 }],
    ['the request says raw', { temperature: 0.7, logprobs_mode: 'raw' }],
    ['no logprobs are asked for', { temperature: 0.7, include_logprobs: false }],
  ] as const) {
    test(`of a raw engine are taken where ${what}`, async (t) => {
      const { error } = await planned(t, { ...RAW, generation });
      assert.equal(error, undefined);
    });
  }

  test('that an engine does not show are taken, and said in the log', async (t) => {
    const parts = modes({ 'http://a': 'unknown' });
    const { result, warnings } = await planned(t, { ...parts, generation: { temperature: 0.7 } });
    assert.equal(result?.logprobs_mode, 'unknown');
    assert.match(
      warnings[0] ?? '',
      /^http:\/\/a does not show whether its logprobs are processed or raw/,
    );
  });
});

describe('a request that is refused', () => {
  for (const [what, input, expected] of [
    ['nothing', undefined, /^\(input\): expected object, got nothing$/],
    ['a list', [], /^\(input\): expected object, got \[\]$/],
    [
      'several mistakes',
      { samples: [SAMPLE], limit: 0, num_repeat: 3 },
      /^limit: .*got 0\nnum_repeat: unknown field; did you mean num_repeats\?$/,
    ],
    [
      'a service that temporal.yaml does not have',
      { samples: [SAMPLE], generation: { service: 'sglang' } },
      /^generation\.service: expected one of default, got "sglang"$/,
    ],
    [
      'a completion policy that there is not',
      { samples: [SAMPLE], completion: { policy: 'race' } },
      /^completion\.policy: .*got "race"$/,
    ],
  ] as const) {
    test(`because it is ${what} gets every problem in one final answer`, async (t) => {
      assert.match(await refusal(await activityBench(t), { input }), expected);
    });
  }

  for (const id of ['a/b', '..', 'x'.repeat(121), 'é']) {
    test(`because its workflow id ${JSON.stringify(id).slice(0, 20)} cannot name a batch`, async (t) => {
      const message = await refusal(await activityBench(t), {
        input: { samples: [SAMPLE] },
        workflow_id: id,
      });
      assert.match(message, /^workflow id: expected a batch id/);
      assert.ok(message.includes(JSON.stringify(id)));
    });
  }

  test('asks no service first: the mistakes do not have to wait for an engine', async (t) => {
    const bench = await activityBench(t);
    await refusal(bench, { input: { samples: [{}] } });
    assert.equal(bench.service.asked.describe, 0);
  });

  test('may be the largest that 252 slices hold; a larger one gets that number', async (t) => {
    const bench = await activityBench(t);
    const samples = Array.from({ length: 253 }, () => SAMPLE);
    const message = await refusal(bench, { input: { samples, num_repeats: 300 } });
    assert.equal(
      message,
      'samples: expected at most 252 samples with num_repeats 300 (75600 rollouts), got more; split them into several batches',
    );
    const planned = await plan(bench, { samples: samples.slice(1), num_repeats: 300 });
    assert.equal(planned?.slices.length, 252);
  });

  test('gets at most ten problems, in under 3 kB, however bad it is', async (t) => {
    const bench = await activityBench(t);
    await mkdir(bench.root, { recursive: true });
    const rows = Array.from({ length: 500 }, () => `{"message_log": "${'漢'.repeat(900)}"}\n`);
    await writeFile(path.join(bench.root, 'bad.jsonl'), rows.join(''));
    const message = await refusal(bench, { input: { samples: { path: 'bad.jsonl' } } });
    assert.ok(Buffer.byteLength(message) < 3000);
    assert.ok(message.split('\n').length <= 11);
  });
});
