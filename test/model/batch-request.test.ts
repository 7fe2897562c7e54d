import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  BatchId,
  BatchRequest,
  RolloutRef,
  SingleRollout,
  toBatchRequest,
} from '../../src/model/batch-request.js';
import { rolloutId } from '../../src/model/workflow-safe/rollout-id.js';
import { problemsOf } from '../../src/model/problems.js';

const samples = { path: 'samples.jsonl' };

function problems(request: unknown): string[] {
  const { error } = BatchRequest.safeParse(request);
  return error === undefined
    ? []
    : problemsOf(error, request).map(({ where, what }) => `${where}: ${what}`);
}

describe('a batch request', () => {
  test('needs only samples; everything else has the default of the table', () => {
    assert.deepEqual(BatchRequest.parse({ samples }), {
      schema_version: 1,
      samples,
      limit: null,
      num_repeats: 1,
      num_repeats_add_seed: false,
      generation: {
        service: 'default',
        model: null,
        temperature: 1,
        top_p: 1,
        top_k: -1,
        min_p: 0,
        max_new_tokens: 512,
        stop_strings: [],
        stop_token_ids: [],
        greedy: false,
        min_tokens: 0,
        ignore_eos: false,
        repetition_penalty: 1,
        presence_penalty: 0,
        frequency_penalty: 0,
        bad_words: [],
        structured_outputs: null,
        seed: null,
        include_logprobs: true,
        logprobs_mode: 'processed',
        top_logprobs: 0,
        prompt_logprobs: false,
        prompt_format: 'chat',
        observation_format: null,
        chat_template_kwargs: {},
      },
      max_seq_len: 4096,
      max_prompt_tokens: null,
      max_rollout_turns: 100,
      rollout_timeout: '1h',
      max_in_flight: 256,
      priority: 3,
      share: 1,
      semantics: 'standard',
      completion: { policy: 'complete' },
      min_valid: 1,
      rollout_workflows: true,
      policy_version: null,
      max_version_span: null,
      attempts: { environment: 3, agent: 3 },
      overlong: 'keep',
      train_resampled: 'winner',
      train_separate: 'all',
      metadata: {},
    });
  });

  const wrong: [generation: object, problem: RegExp][] = [
    [{ min_tokens: 513 }, /^generation\.min_tokens: expected at most max_new_tokens 512, got 513$/],
    [
      { top_logprobs: 1, include_logprobs: false },
      /^generation\.top_logprobs: expected 0 without include_logprobs, got 1$/,
    ],
    [{ top_logprobs: 21 }, /^generation\.top_logprobs: .*20.*got 21/],
    [{ repetition_penalty: 0 }, /^generation\.repetition_penalty: .*got 0/],
    [{ presence_penalty: 2.5 }, /^generation\.presence_penalty: .*2.*got 2\.5/],
    [{ frequency_penalty: -3 }, /^generation\.frequency_penalty: .*-2.*got -3/],
    [{ bad_words: [''] }, /^generation\.bad_words\.0: /],
    [
      { structured_outputs: {} },
      /^generation\.structured_outputs: expected exactly one of json, regex, choice/,
    ],
    [
      { structured_outputs: { regex: 'a', json_object: true } },
      /^generation\.structured_outputs: expected exactly one of/,
    ],
    [
      { structured_outputs: { guided_json: {} } },
      /^generation\.structured_outputs\.guided_json: unknown field/,
    ],
    [
      { structured_outputs: { regex: 'a'.repeat(70_000) } },
      /^generation\.structured_outputs: expected at most 64 kB/,
    ],
  ];
  for (const [generation, problem] of wrong) {
    test(`with ${JSON.stringify(generation).slice(0, 60)} is refused with the reason`, () => {
      assert.match(problems({ samples, generation })[0] ?? 'nothing', problem);
    });
  }

  test('takes each kind of structure', () => {
    for (const structured_outputs of [
      { json: { type: 'object' } },
      { json: '{"type":"object"}', disable_any_whitespace: true },
      { regex: '[0-9]+' },
      { choice: ['a', 'b'] },
      { grammar: 'root ::= "a"' },
      { json_object: true },
      { structural_tag: '{}' },
    ])
      assert.deepEqual(problems({ samples, generation: { structured_outputs } }), []);
  });

  test('one default does not replace its siblings', () => {
    const { generation } = BatchRequest.parse({ samples, generation: { top_p: 0.9 } });
    assert.equal(generation.top_p, 0.9);
    assert.equal(generation.max_new_tokens, 512);
  });

  test('normalised, it normalises to itself: that is how a continued batch is recognised', () => {
    const once = BatchRequest.parse({ samples, num_repeats: 4, metadata: { step: 3 } });
    assert.deepEqual(BatchRequest.parse(structuredClone(once)), once);
  });

  const accepted: Record<string, unknown>[] = [
    { samples: [{}] },
    { limit: 1 },
    { num_repeats: 300 },
    { max_rollout_turns: 0 },
    { rollout_timeout: '90s' },
    { semantics: 'nemo-rl-sync' },
    { semantics: 'nemo-rl-async' },
    { semantics: 'nemo-rl' },
    { num_repeats_add_seed: true },
    { generation: { temperature: 0, top_p: 0.01, top_k: 50, min_p: 1, seed: -5, greedy: true } },
    { generation: { prompt_format: 'raw', stop_strings: ['x'], stop_token_ids: [0] } },
    { metadata: { step: 1, note: 'x'.repeat(4000) } },
    { schema_version: 1 },
  ];
  for (const fields of accepted) {
    test(`may have ${JSON.stringify(fields).slice(0, 60)}`, () => {
      assert.deepEqual(problems({ samples, ...fields }), []);
    });
  }

  // One case a line.
  // prettier-ignore
  const refused: [Record<string, unknown>, RegExp][] = [
    [{ samples: undefined }, /^samples: required: \{"path": "….jsonl"\}, \{"batch": "…"\} or a list of samples$/],
    [{ samples: [] }, /^samples: expected at least one sample, got an empty batch$/],
    [{ samples: 'samples.jsonl' }, /^samples: expected \{"path": "….jsonl"\}, \{"batch": "…"\} or a list of samples, got "samples.jsonl"$/],
    [{ samples: { path: 5 } }, /^samples: expected .*, got \{"path":5\}$/],
    [{ samples: { path: '' } }, /^samples\.path: .*got ""$/],
    [{ samples: { path: 'a', glob: 1 } }, /^samples\.glob: unknown field$/],
    [{ samples: ['x'.repeat(256 * 1024)] }, /^samples: expected at most 256 kB of inline samples/],
    [{ samples: ['漢'.repeat(90 * 1024)] }, /^samples: expected at most 256 kB of inline samples/],
    [{ limit: 0 }, /^limit: .*got 0$/],
    [{ num_repeats: 0 }, /^num_repeats: .*>=1, got 0$/],
    [{ num_repeats: 301 }, /^num_repeats: .*<=300, got 301$/],
    [{ num_repeats: 1.5 }, /^num_repeats: expected int, got 1\.5$/],
    [{ num_repeats: { default: 4 } }, /^num_repeats: expected number, got \{"default":4\}$/],
    [{ max_seq_len: 0 }, /^max_seq_len: .*got 0$/],
    [{ max_rollout_turns: -1 }, /^max_rollout_turns: .*got -1$/],
    [{ max_in_flight: 0 }, /^max_in_flight: .*got 0$/],
    [{ attempts: { environment: 0 } }, /^attempts\.environment: .*got 0$/],
    [{ max_version_span: 0 }, /^max_version_span: .*got 0$/],
    [{ rollout_timeout: 3600 }, /^rollout_timeout: expected a duration such as "30s" or "1h", got 3600$/],
    [{ rollout_timeout: '1 hour and a bit' }, /^rollout_timeout: expected a duration such as "30s"/],
    [{ semantics: 'verl' }, /^semantics: .*"standard"\|"nemo-rl-sync"\|"nemo-rl-async"\|"nemo-rl", got "verl"$/],
    [{ policy_version: '' }, /^policy_version: .*got ""$/],
    [{ schema_version: 2 }, /^schema_version: expected 1, got 2$/],
    [{ completion: { policy: 'race' } }, /^completion\.policy: expected "complete", "min_k" or "refill", got "race"$/],
    [{ completion: {} }, /^completion\.policy: expected "complete", "min_k" or "refill", got nothing$/],
    [{ completion: 'min_k' }, /^completion: .*got "min_k"$/],
    [{ completion: { policy: 'min_k' } }, /^completion\.k: .*got nothing$/],
    [{ completion: { policy: 'min_k', k: 0 } }, /^completion\.k: .*got 0$/],
    [{ completion: { policy: 'min_k', k: 3 }, num_repeats: 2 }, /^completion\.k: expected at most num_repeats 2, got 3$/],
    [{ completion: { policy: 'min_k', k: 1, deadline: '5' } }, /^completion\.deadline: expected a duration such as "30s" or "1h", got "5"$/],
    [{ completion: { policy: 'min_k', k: 1, n: 2 } }, /^completion\.n: unknown field$/],
    [{ completion: { policy: 'refill' } }, /^completion\.max_replacements: .*got nothing$/],
    [{ completion: { policy: 'refill', max_replacements: 0 } }, /^completion\.max_replacements: .*got 0$/],
    [{ completion: { policy: 'refill', max_replacements: 10_001 } }, /^completion\.max_replacements: .*got 10001$/],
    [{ completion: { policy: 'refill', max_replacements: 2.5 } }, /^completion\.max_replacements: .*got 2\.5$/],
    [{ completion: { policy: 'refill', max_replacements: 1, k: 1 } }, /^completion\.k: unknown field$/],
    [{ completion: { policy: 'complete', k: 1 } }, /^completion\.k: unknown field$/],
    [{ metadata: 'x' }, /^metadata: expected object, got "x"$/],
    [{ metadata: { note: 'x'.repeat(4096) } }, /^metadata: expected at most 4 kB of metadata/],
    [{ metadata: { note: '漢'.repeat(1400) } }, /^metadata: expected at most 4 kB of metadata/],
    [{ num_repeat: 4 }, /^num_repeat: unknown field$/],
    [{ generation: { temprature: 1 } }, /^generation\.temprature: unknown field$/],
    [{ generation: { temperature: -1 } }, /^generation\.temperature: .*got -1$/],
    [{ generation: { top_p: 0 } }, /^generation\.top_p: .*got 0$/],
    [{ generation: { top_p: 1.1 } }, /^generation\.top_p: .*got 1\.1$/],
    [{ generation: { top_k: -2 } }, /^generation\.top_k: .*got -2$/],
    [{ generation: { min_p: 2 } }, /^generation\.min_p: .*got 2$/],
    [{ generation: { max_new_tokens: 0 } }, /^generation\.max_new_tokens: .*got 0$/],
    [{ generation: { stop_strings: [''] } }, /^generation\.stop_strings\.0: .*got ""$/],
    [{ generation: { stop_token_ids: [2 ** 31] } }, /^generation\.stop_token_ids\.0: expected a token id.*got 2147483648$/],
    [{ generation: { stop_token_ids: [-1] } }, /^generation\.stop_token_ids\.0: .*got -1$/],
    [{ generation: { seed: 2 ** 60 } }, /^generation\.seed: .*got 1152921504606847000$/],
    [{ generation: { prompt_format: 'completion' } }, /^generation\.prompt_format: .*got "completion"$/],
    [{ num_repeats_add_seed: true, generation: { seed: 3 } }, /^generation\.seed: expected null with num_repeats_add_seed .*got 3$/],
  ];
  for (const [fields, expected] of refused) {
    test(`with ${JSON.stringify(fields).slice(0, 60)} is refused by one message that names it`, () => {
      const found = problems({ samples, ...fields });
      assert.equal(found.length, 1, found.join('\n'));
      assert.match(found[0] ?? '', expected);
    });
  }

  for (const input of [null, undefined, [], 'x', 7]) {
    test(`that is ${JSON.stringify(input)} is refused, not thrown at`, () => {
      assert.match(problems(input)[0] ?? '', /^\(input\): expected object, got /);
    });
  }
});

describe('a batch id', () => {
  const valid = ['a', '0', 'step-17', 'sliding-puzzle-20260101T000000Z', 'A._:-9', 'x'.repeat(120)];
  for (const id of valid) {
    test(`${id.slice(0, 40)} (${id.length} characters) is one`, () => {
      assert.equal(BatchId.parse(id), id);
    });
  }

  const invalid = [
    '',
    '.',
    '..',
    '.hidden',
    '-x',
    '_x',
    ':x',
    'a/b',
    '../a',
    'a\\b',
    'a b',
    'a\n',
    'a\0',
    'é',
    'a%2fb',
    'x'.repeat(121),
  ];
  for (const id of invalid) {
    test(`${JSON.stringify(id).slice(0, 40)} is none, and the message quotes it`, () => {
      const { error } = BatchId.safeParse(id);
      assert.ok(error !== undefined);
      assert.ok(error.issues[0]?.message.includes(JSON.stringify(id)));
    });
  }
});

describe('a rollout started by hand', () => {
  const sample = { message_log: [{ role: 'user', content: 'go' }], task_name: 'task' };

  test('is a batch of one sample and one repeat, with the same defaults', () => {
    const single = SingleRollout.parse({ sample, max_rollout_turns: 3 });
    const batch = BatchRequest.parse({ samples: [sample], max_rollout_turns: 3, max_in_flight: 1 });
    assert.deepEqual(toBatchRequest(single), batch);
  });

  for (const field of ['samples', 'num_repeats', 'limit', 'max_in_flight', 'completion']) {
    test(`has no ${field}`, () => {
      const { error } = SingleRollout.safeParse({ sample, [field]: 1 });
      assert.equal(error?.issues[0]?.code, 'unrecognized_keys');
    });
  }

  test('cannot have both kinds of seed either', () => {
    const seeds = { num_repeats_add_seed: true, generation: { seed: 1 } };
    assert.equal(SingleRollout.safeParse({ sample, ...seeds }).success, false);
  });
});

describe('the place of a rollout', () => {
  test('names it', () => {
    assert.equal(rolloutId({ batch_id: 'step-17', row: 12, repeat: 3 }), 'step-17/12-3');
  });

  for (const ref of [
    { batch_id: '..', row: 0, repeat: 0 },
    { batch_id: 'b', row: -1, repeat: 0 },
    { batch_id: 'b', row: 0, repeat: 0.5 },
    { batch_id: 'b', row: '../0', repeat: 0 },
    { batch_id: 'b', row: 0, repeat: 0, turn: 0 },
  ]) {
    test(`is not ${JSON.stringify(ref)}`, () => {
      assert.equal(RolloutRef.safeParse(ref).success, false);
    });
  }
});
