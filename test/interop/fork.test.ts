import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { after, before, test } from 'node:test';
import type { GenerationService } from '../../src/generation/generation-service.js';
import { contextOf, type Trajectory } from '../../src/model/journal/trajectory.js';
import { prefixOf } from '../../src/model/journal/open-answers.js';
import { joinedIds } from '../../src/model/token-id.js';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { BATCH, REF, requestOf } from '../fakes/temporary-store.js';
import { baseUrl, KIND, openEngine, servedModel, suite, WITHOUT_ENGINE } from './engine.js';
import { LOGPROB_TOLERANCE, promptOf, SPECIAL_TOKENS } from './play.js';

const TOP = 20;
const TEMPERATURE = 0.7;

/** A rollout of two turns, sampled. */
async function played(
  t: TestContext,
  { service, model, seed }: { service: GenerationService; model: string; seed: number },
): Promise<Bench> {
  const bench = await activityBench(t, {
    replicas: [service],
    plays_on: true,
    environment: scriptedEnvironment(
      Array.from({ length: 64 }, () => ({ content: 'on', reward: 1 })),
    ),
    special_tokens: SPECIAL_TOKENS,
  });
  const generation = {
    ...{ model, seed, temperature: TEMPERATURE, top_logprobs: TOP },
    ...{ max_new_tokens: 24, ignore_eos: true, prompt_format: 'raw' },
  };
  const message_log = [{ role: 'user', content: 'go', token_ids: promptOf(seed) }];
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({
      ...{ generation, max_seq_len: 512, max_rollout_turns: 2, semantics: 'nemo-rl-sync' },
    }),
    samples: [JSON.stringify({ message_log, task_name: 'task' })],
  });
  await bench.result('openRollout', REF);
  return bench;
}

/** What a fork has sampled first, its likeliest tokens there, and the ids before it. */
async function firstOf(bench: Bench, at: string) {
  const batch_id = `fork-${at.replace(':', '-')}`;
  const input = { fork: { rollout_id: `${BATCH}/0-0`, at } };
  const planned = await bench.run('planBatch', { input, workflow_id: batch_id });
  assert.equal(planned.error, undefined);
  const ref = { ...REF, batch_id };
  const { error } = await bench.run('openRollout', { input: ref, workflow_id: `${batch_id}/0-0` });
  assert.equal(error, undefined);
  const trajectory = await bench.elsewhere().readTrajectory(ref);
  const turn = trajectory.calls.findIndex(
    ({ sampled }) => sampled.token_ids.length > prefixOf(sampled),
  );
  const { sampled } = trajectory.calls[turn]!;
  const kept = prefixOf(sampled);
  const before: Trajectory = { ...trajectory, calls: trajectory.calls.slice(0, turn + 1) };
  return {
    ids: joinedIds([contextOf(before), sampled.token_ids.slice(0, kept)]),
    sampled: sampled.token_ids[kept]!,
    logprob: sampled.logprobs[kept]!,
    top: new Map(sampled.top_logprobs[kept]),
  };
}

/** The engine's own likeliest tokens behind these ids. */
const likeliest = (model: string, ids: number[]): Promise<Map<number, number>> =>
  KIND === 'sglang' ? likeliestOfSglang(ids) : likeliestOfVllm(model, ids);

async function post(url: string, body: object): Promise<unknown> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  return await response.json();
}

async function likeliestOfSglang(input_ids: number[]): Promise<Map<number, number>> {
  const { meta_info } = (await post(`${baseUrl().replace(/\/v1$/, '')}/generate`, {
    ...{ input_ids, return_logprob: true, top_logprobs_num: TOP },
    sampling_params: { max_new_tokens: 1, temperature: TEMPERATURE, ignore_eos: true },
  })) as { meta_info: { output_top_logprobs: [logprob: number, id: number][][] } };
  return new Map(meta_info.output_top_logprobs[0]!.map(([logprob, id]) => [id, logprob]));
}

async function likeliestOfVllm(model: string, prompt: number[]): Promise<Map<number, number>> {
  const { choices } = (await post(`${baseUrl()}/completions`, {
    ...{ model, prompt, max_tokens: 1, temperature: TEMPERATURE, logprobs: TOP },
    ...{ return_tokens_as_token_ids: true, ignore_eos: true, add_special_tokens: false },
  })) as { choices: { logprobs: { top_logprobs: Record<string, number>[] } }[] };
  const top = choices[0]!.logprobs.top_logprobs[0]!;
  return new Map(Object.entries(top).map(([id, p]) => [Number(id.replace('token_id:', '')), p]));
}

suite('a fork on a real engine', {
  skip: WITHOUT_ENGINE,
  timeout: 600_000,
  tests: () => {
    let service: GenerationService;
    let model: string;
    before(async () => {
      service = openEngine();
      model = await servedModel(service);
    });
    after(() => service.close());

    test('samples its first token from the engine’s own distribution behind exactly the ids before', async (t) => {
      let [tokens, worst] = [0, 0];
      for (const seed of [1, 2, 3, 4]) {
        const bench = await played(t, { service, model, seed });
        const whole = await bench.elsewhere().readTrajectory(REF);
        const [, second] = whole.calls;
        for (const at of ['turn:0', 'turn:1', 'token:1', 'token:13', 'token:24', 'token:40']) {
          const first = await firstOf(bench, at);
          const all = joinedIds([
            contextOf({ ...whole, calls: whole.calls.slice(0, 2) }),
            second!.sampled.token_ids,
          ]);
          assert.deepEqual(all.slice(0, first.ids.length), first.ids);
          const expected = await likeliest(model, first.ids);
          const near = (one: number, other: number | undefined): void => {
            assert.ok(other !== undefined);
            worst = Math.max(worst, Math.abs(one - other));
          };
          for (const [id, logprob] of first.top)
            // Two that are as likely may change places at the end of the list.
            if (expected.has(id)) near(logprob, expected.get(id));
          assert.ok([...first.top.keys()].filter((id) => expected.has(id)).length >= TOP - 1);
          near(first.logprob, expected.get(first.sampled) ?? first.logprob);
          // Behind one id less it is another distribution.
          const earlier = await likeliest(model, first.ids.slice(0, -1));
          assert.ok(
            [...first.top].some(([id, p]) => Math.abs((earlier.get(id) ?? -Infinity) - p) > 0.01),
          );
          tokens += 1;
        }
      }
      t.diagnostic(`${tokens} first tokens, of each ${TOP} logprobs, at most ${worst} apart`);
      assert.ok(worst <= LOGPROB_TOLERANCE, `a logprob is ${worst} from the engine's`);
    });
  },
});
