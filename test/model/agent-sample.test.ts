import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AgentSample, agentSampleProblems } from '../../src/model/agent/sample.js';
import { Sample } from '../../src/model/sample.js';

const INFO = { agent: 'simple_agent', task_index: 3, rollout_index: 1, row: '{"a": 1.0}' };
const problemsOf = (info: object | undefined, message_log: unknown[] = []): string[] => {
  const sample = { message_log, task_name: 'gym', ...(info && { extra_env_info: info }) };
  return agentSampleProblems(Sample.parse(sample)).map(({ where, what }) => `${where}: ${what}`);
};

describe('a sample that an agent plays', () => {
  test('needs its agent, its place and its row', () => {
    assert.deepEqual(problemsOf(INFO), []);
    assert.deepEqual(AgentSample.parse(INFO), {
      ...INFO,
      attempt_index: 0,
      max_attempts: 3,
      timeout: null,
    });
    const missing = problemsOf(undefined);
    assert.deepEqual(
      missing.map((problem) => problem.split(':')[0]),
      [
        'extra_env_info.agent',
        'extra_env_info.task_index',
        'extra_env_info.rollout_index',
        'extra_env_info.row',
      ],
    );
  });

  const refused: [what: string, change: object, expected: RegExp][] = [
    ['an unknown field', { agents: 1 }, /^extra_env_info\.agents: unknown field$/],
    ['no name', { agent: '' }, /^extra_env_info\.agent: .*got ""$/],
    [
      'a name that no search attribute has room for',
      { agent: 'a'.repeat(256) },
      /^extra_env_info\.agent: .*<=255 characters/,
    ],
    ['a place that is no index', { task_index: -1 }, /^extra_env_info\.task_index: .*got -1$/],
    ['no attempts', { max_attempts: 0 }, /^extra_env_info\.max_attempts: .*got 0$/],
    [
      'a time without a unit',
      { timeout: '30' },
      /^extra_env_info\.timeout: expected a duration such as/,
    ],
    ['a row that is an object', { row: {} }, /^extra_env_info\.row: expected string, got \{\}$/],
    [
      'a row that is no JSON',
      { row: '{' },
      /^extra_env_info\.row: expected the JSON text of an object, got "\{" \(/,
    ],
    [
      'a row that is a list',
      { row: '[1]' },
      /^extra_env_info\.row: expected the JSON text of an object, got \[1\]$/,
    ],
  ];
  for (const [what, change, expected] of refused) {
    test(`with ${what} is refused by one message that names the field`, () => {
      const found = problemsOf({ ...INFO, ...change });
      assert.equal(found.length, 1, found.join('\n'));
      assert.match(found[0] ?? '', expected);
    });
  }

  test('has no prompt', () => {
    const found = problemsOf(INFO, [{ role: 'user', content: 'x' }]);
    assert.deepEqual(found, [
      'message_log: expected [], since the agent is given the row, got 1 messages',
    ]);
  });
});
