import assert from 'node:assert/strict';
import test from 'node:test';
import { BatchRequest } from '../../src/model/batch-request.js';
import { lineOf } from '../../src/model/problems.js';
import { problemsWithHints } from '../../src/model/unknown-fields.js';
import { Config } from '../../src/workers/config.js';

const samples = { path: 'a.jsonl' };

function saidOf(schema: typeof BatchRequest | typeof Config, input: unknown): string[] {
  const { error } = schema.safeParse(input);
  assert.ok(error !== undefined);
  return problemsWithHints(error, { schema, input }).map(lineOf);
}

test('an unknown field names where a field of its name belongs', () => {
  const said = saidOf(BatchRequest, {
    samples,
    temperature: 1,
    generation: { num_repeats: 4 },
    k: 3,
  });
  assert.deepEqual(said.sort(), [
    'generation.num_repeats: unknown field; did you mean num_repeats?',
    'k: unknown field; did you mean completion.k?',
    'temperature: unknown field; did you mean generation.temperature?',
  ]);
});

test('an unknown field names one that is spelled much like it', () => {
  const said = saidOf(BatchRequest, {
    samples,
    num_repeat: 2,
    generation: { temperatur: 1, topp: 1 },
  });
  assert.deepEqual(said.sort(), [
    'generation.temperatur: unknown field; did you mean generation.temperature?',
    'generation.topp: unknown field; did you mean generation.top_p?',
    'num_repeat: unknown field; did you mean num_repeats?',
  ]);
});

test('an unknown field names the one that other programs call so', () => {
  const said = saidOf(BatchRequest, {
    samples,
    n: 8,
    group_size: 8,
    max_turns: 5,
    generation: { max_tokens: 64, max_completion_tokens: 64, stop: ['.'], logprobs: true },
  });
  assert.deepEqual(said.sort(), [
    'generation.logprobs: unknown field; did you mean generation.include_logprobs?',
    'generation.max_completion_tokens: unknown field; did you mean generation.max_new_tokens?',
    'generation.max_tokens: unknown field; did you mean generation.max_new_tokens?',
    'generation.stop: unknown field; did you mean generation.stop_strings?',
    'group_size: unknown field; did you mean num_repeats?',
    'max_turns: unknown field; did you mean max_rollout_turns?',
    'n: unknown field; did you mean num_repeats?',
  ]);
});

test('a short name is like no other: one letter away is another word', () => {
  assert.deepEqual(saidOf(BatchRequest, { samples, m: 1, generation: { top: 1 } }).sort(), [
    'generation.top: unknown field',
    'm: unknown field',
  ]);
});

test('a field that other programs name is named only where the request has it', () => {
  const generation = { default: { kind: 'vllm', base_urls: ['http://a/v1'] } };
  const said = saidOf(Config, { environments: {}, n: 8, generation });
  assert.ok(said.includes('n: unknown field'), said.join('\n'));
});

test('a field that is like none is unknown, and no more', () => {
  assert.deepEqual(saidOf(BatchRequest, { samples, wombat: 1 }), ['wombat: unknown field']);
});

test('what is said of other problems stays', () => {
  const said = saidOf(BatchRequest, { samples, num_repeats: 0, temprature: 1 });
  assert.equal(said.length, 2);
  assert.ok(
    said.some((line) => /^num_repeats: .*got 0$/.test(line)),
    said.join('\n'),
  );
});

test('a deployment’s settings have hints, too', () => {
  const generation = { default: { kind: 'vllm', base_urls: ['http://a/v1'], idle_timout: '2m' } };
  const said = saidOf(Config, { task_queue: 'mine', worker: { turn_slices: '2s' }, generation });
  assert.ok(said.includes('task_queue: unknown field; did you mean temporal.task_queue?'));
  assert.ok(
    said.includes(
      'generation.default.idle_timout: unknown field; did you mean generation.default.idle_timeout?',
    ),
  );
  assert.ok(said.includes('worker.turn_slices: unknown field; did you mean worker.turn_slice?'));
});
