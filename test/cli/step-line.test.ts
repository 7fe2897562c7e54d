import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseLine } from '../../src/cli/step/line.js';
import { faultOf } from '../fakes/temporary-store.js';

const user = { role: 'user', content: '1 + 1?' };
const assistant = { role: 'assistant', content: '2' };
const environment = { role: 'environment', content: 'Correct.' };

const parse = (line: unknown, answer: string | null = null) =>
  parseLine(JSON.stringify(line), { number: 7, answer });

describe('a line of temporal-rollout step', () => {
  test('is a conversation and its state', () => {
    assert.deepEqual(parse({ message_log: [user, assistant], metadata: { truth: 2 } }), {
      log: [user, assistant],
      metadata: { truth: 2 },
      task_name: null,
      recorded: null,
    });
  });

  test('is a sample as it is in a file, with an answer of its own or the given one', () => {
    const sample = { message_log: [user], task_name: 'sums', extra_env_info: { truth: 2 }, idx: 4 };
    const expected = {
      log: [user, assistant],
      metadata: { truth: 2 },
      task_name: 'sums',
      recorded: null,
    };
    assert.deepEqual(parse(sample, '2'), expected);
    assert.deepEqual(parse({ ...sample, message_log: [user, assistant] }, 'another'), expected);
  });

  test('that is a sample without an answer is refused, with what gives it one', () => {
    assert.throws(
      () => parse({ message_log: [user], task_name: 'sums' }),
      faultOf(
        'EnvironmentRejected',
        'line 7: message_log: expected a last message of role assistant, got user; --answer TEXT',
      ),
    );
  });

  test('is a row of results, graded again without what the environment said to its last turn', () => {
    const message_log = [
      { ...user, token_ids: [1, 2] },
      { ...assistant, token_ids: [3], generation_logprobs: [-0.5] },
      { ...environment, token_ids: [4] },
    ];
    const row = {
      ...{ message_log, task_name: 'sums', extra_env_info: null, rewards: { total: 1 } },
      ...{ rollout_id: 'b/0-1', total_reward: 1 },
    };
    assert.deepEqual(parse(row), {
      log: [user, assistant],
      metadata: {},
      task_name: 'sums',
      recorded: { rollout_id: 'b/0-1', total_reward: 1 },
    });
  });

  test('that is malformed is refused by line and field', () => {
    for (const [line, problem] of [
      [{ message_log: [] }, 'line 7: message_log: expected at least one message, got none'],
      [{ message_log: [user], metdata: {} }, 'line 7: metdata: unknown field'],
      [{ message_log: [{ role: 1 }], task_name: 'a' }, 'line 7: message_log.0.role: '],
      [{ message_log: [assistant], extra_env_info: 3 }, 'line 7: extra_env_info: '],
      [[user], 'line 7: '],
    ] as const)
      assert.throws(() => parse(line), faultOf('EnvironmentRejected', problem));
    assert.throws(
      () => parseLine('{"a": ', { number: 7, answer: null }),
      faultOf('EnvironmentRejected', 'line 7: expected a JSON object'),
    );
  });
});
