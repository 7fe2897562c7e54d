import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseLine } from '../../src/cli/step/line.js';
import { checkColumns } from '../../src/model/sample-columns.js';
import { writeJson, plainOf } from '../../src/platform/json/kept.js';
import { faultOf } from '../fakes/temporary-store.js';

const user = { role: 'user', content: '1 + 1?' };
const assistant = { role: 'assistant', content: '2' };
const environment = { role: 'environment', content: 'Correct.' };

const parse = (line: unknown, answer: string | null = null) => {
  const parsed = parseLine(JSON.stringify(line), { number: 7, answer, columns: null });
  return { ...parsed, metadata: plainOf(parsed.metadata) };
};

const mapped = (text: string, pairs: Record<string, string>) =>
  parseLine(text, { number: 7, answer: '2', columns: checkColumns(Object.entries(pairs)) });

describe('a line of temporal-rollout step', () => {
  test('is a conversation and its state', () => {
    assert.deepEqual(parse({ message_log: [user, assistant], metadata: { truth: 2 } }), {
      log: [user, assistant],
      metadata: { truth: 2 },
      task_name: null,
      prompt_length: 1,
      is_standard: true,
      recorded: null,
    });
  });

  test('is a sample as it is in a file, with an answer of its own or the given one', () => {
    const sample = { message_log: [user], task_name: 'sums', extra_env_info: { truth: 2 }, idx: 4 };
    const expected = {
      log: [user, assistant],
      metadata: { truth: 2 },
      task_name: 'sums',
      prompt_length: 1,
      is_standard: true,
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
      prompt_length: 1,
      is_standard: true,
      recorded: { rollout_id: 'b/0-1', total_reward: 1 },
    });
  });

  test('that is a row knows what its policy said, by the ids of its prompt, and its semantics', () => {
    const ids = (message: object, ...token_ids: number[]) => ({ ...message, token_ids });
    const shown = [ids(user, 1, 2), ids(assistant, 3)];
    const turns = [ids(user, 4), ids(assistant, 5), ids(environment, 6), ids(assistant, 7)];
    const row = { message_log: [...shown, ...turns], task_name: 'sums', rollout_id: 'b/0-1' };
    const graded = (more: object) => {
      const { prompt_length, is_standard } = parse({ ...row, total_reward: 1, ...more });
      return [prompt_length, is_standard];
    };
    assert.deepEqual(graded({ prompt_tokens: 4 }), [3, true]);
    assert.deepEqual(graded({ prompt_tokens: 4, semantics: 'nemo-rl-async' }), [3, false]);
    // Of an agent without ids.
    assert.deepEqual(graded({}), [5, true]);
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
      () => parseLine('{"a": ', { number: 7, answer: null, columns: null }),
      faultOf('EnvironmentRejected', 'line 7: expected a JSON object'),
    );
  });

  test('that is a row of a data set is refused with the columns that probably map it', () => {
    const expected = (columns: string, read: string) =>
      faultOf(
        'EnvironmentRejected',
        `line 7: expected a sample, whose prompt is message_log, got columns ${columns} maps them; a column that the environment reads by its own name: ${read}`,
      );
    const own = 'answer=extra_env_info.answer';
    const question = { id: 1, question: '1 + 1?', answer: '2' };
    const ground = 'probably --columns question=prompt,answer=extra_env_info.ground_truth';
    assert.throws(
      () => parse(question, '2'),
      expected(`"id", "question", "answer"; ${ground}`, own),
    );
    assert.throws(
      () => parse({ ...question, task_name: 'sums' }, '2'),
      expected(`"id", "question", "answer", "task_name"; ${ground}`, own),
    );
    assert.throws(
      () => parse({ messages: [user], metadata: {} }, '2'),
      expected(
        '"messages", "metadata"; probably --columns messages=prompt',
        'metadata=extra_env_info.metadata',
      ),
    );
  });

  test('that is a row of a data set is a sample by its columns, with the digits that it has', () => {
    const columns = { question: 'prompt', answer: 'extra_env_info.answer', kind: 'task_name' };
    const row = `{"question": "1 + 1?", "answer": 9007199254740993, "kind": "sums", "task_name": "another", "extra_env_info": {"unit": 1.0}}`;
    const { metadata, ...line } = mapped(row, columns);
    assert.deepEqual([line.log, line.task_name], [[user, assistant], 'sums']);
    assert.equal(writeJson(metadata), '{"unit":1.0,"answer":9007199254740993}');
    assert.deepEqual(mapped('{"q": [{"role": "user", "content": "1 + 1?"}]}', { q: 'prompt' }), {
      log: [user, assistant],
      metadata: {},
      task_name: null,
      prompt_length: 1,
      is_standard: true,
      recorded: null,
    });
  });

  test('that lacks a column, or has no prompt in it, is refused by its name', () => {
    for (const [row, problem] of [
      ['{"query": "1 + 1?"}', 'line 7: expected column "q" (columns), got "query"'],
      ['{}', 'line 7: expected column "q" (columns), got none'],
      ['{"q": 3}', 'line 7: q: expected text or a list of messages as prompt, got 3'],
      ['{"q": []}', 'line 7: q: expected text or a list of messages as prompt, got []'],
    ] as const)
      assert.throws(() => mapped(row, { q: 'prompt' }), faultOf('EnvironmentRejected', problem));
  });
});
