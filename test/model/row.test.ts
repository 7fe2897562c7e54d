import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Semantics } from '../../src/model/semantics.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { Row } from '../../src/model/results/row.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import { Summary, toSummary } from '../../src/model/results/summary.js';
import { ROW_COLUMNS, Sample } from '../../src/model/sample.js';
import { SETTINGS, author, foldOf, logprobOf, wholeTurn } from '../fakes/journal-lines.js';

const a = author('a');
const b = author('b');
const REF = { batch_id: 'batch', row: 7, repeat: 2 };
const SAMPLE = Sample.parse({
  message_log: [{ role: 'user', content: 'go' }],
  task_name: 'task',
  extra_env_info: { state: 'first' },
  idx: 70,
  dataset: 'mine',
});

function rowOf(
  lines: JournalLine[],
  {
    sample = SAMPLE,
    semantics = 'standard',
    stopped = false,
  }: { sample?: Sample; semantics?: Semantics; stopped?: boolean } = {},
): Row {
  const otherwise = { stop_reason: stopped ? ('stopped' as const) : ('cancelled' as const) };
  const trajectory = foldOf(lines);
  const outcome = outcomeOf(trajectory, otherwise);
  return toRow({ sample, ref: REF, semantics, trajectory, outcome });
}

const started = (settings: Partial<typeof SETTINGS> = {}) => [
  a.claim(),
  a.start({
    at: 100,
    settings: { ...SETTINGS, ...settings },
    extra_env_info: { state: 'first' },
  }),
];
const played = [
  ...wholeTurn(a, { ids: [1, 2], reward: 1, rewards: { x: 1 }, metadata: { state: 'next' } }),
  ...wholeTurn(a, { turn: 1, ids: [3], token_ids: [], reward: 0.5, terminated: true }),
];

describe('the row of a rollout that ended validly', () => {
  const row = rowOf([...started(), ...played, a.end({ at: 109 })]);

  test('has the sample’s columns, unknown ones too, and where it belongs', () => {
    assert.equal(row['dataset'], 'mine');
    assert.equal(row['idx'], 70);
    assert.equal(row['task_name'], 'task');
    assert.equal(row.rollout_id, 'batch/7-2');
    assert.deepEqual([row.schema_version, row.batch_id, row.row, row.repeat], [1, 'batch', 7, 2]);
  });

  test('has the log and the environment’s state as they ended', () => {
    assert.deepEqual(row.message_log, [
      { role: 'user', content: 'go', token_ids: [901, 902] },
      {
        role: 'assistant',
        content: 'said',
        token_ids: [1, 2],
        generation_logprobs: [1, 2].map(logprobOf),
      },
      { role: 'environment', content: 'seen', token_ids: [801] },
      { role: 'assistant', content: 'said', token_ids: [3], generation_logprobs: [logprobOf(3)] },
      { role: 'environment', content: 'seen', token_ids: [] },
    ]);
    assert.deepEqual(row.extra_env_info, { state: 'next' });
  });

  test('says how it ended, what it was worth and how long it was', () => {
    assert.equal(row.stop_reason, 'terminated');
    assert.deepEqual([row.terminated, row.truncated, row.max_turns_reached], [true, false, false]);
    assert.equal(row.total_reward, 1.5);
    assert.deepEqual(row.rewards, { x: 1 });
    assert.deepEqual([row.turn_count, row.assistant_tokens, row.env_tokens], [2, 3, 1]);
    assert.equal(row.total_tokens, 4);
    assert.equal(row.attempts, 1);
  });

  test('has no failure', () => {
    assert.ok(!('failure' in row));
  });

  test('has every column that a sample may not bring', () => {
    const missing = ROW_COLUMNS.filter((column) => !(column in row));
    assert.deepEqual(missing, [
      'replaces',
      'semantics',
      'extracted_answer',
      'agent_result',
      'untokenized',
      'reward_shaping',
      ...[
        'sequences',
        'calls',
        'lives',
        'unanswered',
        'malformed_calls',
        'structured_calls',
        'resampled',
        'program_end',
        'all_tokens',
        'over_span',
        'forked_from',
        'forked_at',
        'failure',
      ],
    ]);
  });

  test('has its times: sums over turns, and the span from the first line to the last', () => {
    const timed = rowOf([
      ...started(),
      a.chunk(),
      a.generation({ queue_s: 1, generate_s: 2 }),
      a.observation({ step_s: 4 }),
      a.chunk({ turn: 1 }),
      a.generation({ turn: 1, queue_s: 0.5, generate_s: 0.25 }),
      a.observation({ turn: 1, step_s: 0.125, terminated: true }),
      a.end({ at: 109 }),
    ]);
    assert.deepEqual(timed.timing, { queue_s: 1.5, generate_s: 2.25, step_s: 4.125, wall_s: 9 });
  });
});

describe('policy versions and segments', () => {
  test('are runs over the generated tokens, counted through all turns', () => {
    const row = rowOf([
      ...started(),
      a.chunk({ token_ids: [1, 2], policy_version: 'v1' }),
      b.claim({ attempt: 2 }),
      b.chunk({ offset: 2, token_ids: [3], policy_version: 'v1', replica: 'http://other/v1' }),
      b.generation({ token_count: 3 }),
      b.observation(),
      b.chunk({ turn: 1, token_ids: [4, 5], policy_version: 'v2' }),
      b.generation({ turn: 1, token_count: 2 }),
      b.observation({ turn: 1, terminated: true }),
      b.end(),
    ]);
    assert.deepEqual(row.policy_versions, [
      { start: 0, end: 3, version: 'v1' },
      { start: 3, end: 5, version: 'v2' },
    ]);
    assert.deepEqual(row.segments, [
      { turn: 0, start: 0, end: 2, replica: 'http://replica/v1', request_id: 'request-a' },
      { turn: 0, start: 2, end: 3, replica: 'http://other/v1', request_id: 'request-b' },
      { turn: 1, start: 3, end: 5, replica: 'http://replica/v1', request_id: 'request-b' },
    ]);
    assert.equal(row.attempts, 2);
  });

  test('an unknown version is null, and an empty generation has none', () => {
    const row = rowOf([
      ...started(),
      a.generation({ token_count: 0 }),
      a.observation(),
      ...wholeTurn(a, { turn: 1, ids: [1], terminated: true }),
      a.end(),
    ]);
    assert.deepEqual(row.policy_versions, [{ start: 0, end: 1, version: null }]);
    assert.equal(row.segments.length, 1);
  });
});

describe('the row of a rollout that did not end validly', () => {
  const failure = { type: 'EnvironmentRejected', message: 'no such board', turn: 1 };
  const turn = wholeTurn(a, { reward: 1 });

  test('has its failure, and its whole turns alone count', () => {
    const row = rowOf([
      ...started(),
      ...turn,
      a.chunk({ turn: 1, token_ids: [5, 6], text: 'hal' }),
      a.end({ stop_reason: 'failed', failure }),
    ]);
    assert.deepEqual(row.failure, failure);
    assert.equal(row.stop_reason, 'failed');
    assert.deepEqual([row.turn_count, row.assistant_tokens, row.total_reward], [1, 1, 1]);
    assert.deepEqual(row.policy_versions, [{ start: 0, end: 1, version: null }]);
  });

  test('ends its log with the unfinished generation, marked as partial', () => {
    const row = rowOf([
      ...started(),
      ...turn,
      a.chunk({ turn: 1, token_ids: [5, 6], text: 'hal' }),
      a.end({ stop_reason: 'failed', failure }),
    ]);
    assert.deepEqual(row.message_log.at(-1), {
      role: 'assistant',
      content: 'hal',
      token_ids: [5, 6],
      generation_logprobs: [5, 6].map(logprobOf),
      partial: true,
    });
  });

  test('a whole generation that no environment answered is partial too, with its own content', () => {
    const lines = [...started(), a.chunk({ text: 'said</s>' }), a.generation({ content: 'said' })];
    const row = rowOf([...lines, a.end({ stop_reason: 'timeout' })]);
    assert.deepEqual(row.message_log.at(-1), {
      role: 'assistant',
      content: 'said',
      token_ids: [1],
      generation_logprobs: [logprobOf(1)],
      partial: true,
    });
  });

  test('without tokens of the turn in progress nothing is partial', () => {
    const { message_log } = rowOf([...started(), ...turn, a.end({ stop_reason: 'stopped' })]);
    assert.ok(message_log.every((message) => !('partial' in message)));
  });

  const reasons = { timeout: 'TimedOut', stopped: 'Stopped', cancelled: 'Cancelled' } as const;
  for (const [stop_reason, type] of Object.entries(reasons)) {
    test(`after ${stop_reason} the failure is ${type}, at the turn in progress`, () => {
      const end = a.end({ stop_reason: stop_reason as keyof typeof reasons });
      const row = rowOf([...started(), ...turn, end]);
      assert.equal(row.failure?.type, type);
      assert.equal(row.failure.turn, 1);
    });
  }

  test('a journal without an end is closed as cancelled, after a stop as stopped', () => {
    const lines = [...started(), ...turn];
    assert.equal(rowOf(lines).stop_reason, 'cancelled');
    assert.equal(rowOf(lines).failure?.type, 'Cancelled');
    assert.equal(rowOf(lines, { stopped: true }).stop_reason, 'stopped');
    assert.equal(rowOf(lines, { stopped: true }).failure?.type, 'Stopped');
    assert.equal(rowOf(lines).timing.wall_s, 0);
  });
});

describe('the row of a rollout that never started', () => {
  test('has the sample’s prompt, with empty ids where it brings none', () => {
    const row = rowOf([]);
    assert.deepEqual(row.message_log, [{ role: 'user', content: 'go', token_ids: [] }]);
    assert.deepEqual(row.extra_env_info, { state: 'first' });
    assert.deepEqual([row.turn_count, row.total_reward, row.attempts], [0, 0, 0]);
    assert.equal(row.failure?.type, 'Cancelled');
    const bare = Sample.parse({
      message_log: [{ role: 'user', content: 'x', token_ids: [4] }],
      task_name: 't',
    });
    const withIds = rowOf([], { sample: bare });
    assert.deepEqual(withIds.message_log, bare.message_log);
    assert.deepEqual(withIds.extra_env_info, {});
  });

  test('has the reason of its end, if one was written', () => {
    const failure = { type: 'PromptTooLong', message: 'm', turn: 0 };
    const row = rowOf([a.claim(), a.end({ stop_reason: 'failed', failure })]);
    assert.deepEqual(row.failure, failure);
  });
});

describe('columns that upstream’s loops return changed', () => {
  const row = (semantics: Semantics, column: { stop_strings?: string[] | null }) => {
    const sample = { ...SAMPLE, ...column };
    const settings = { ...SETTINGS, semantics };
    const lines = [a.claim(), a.start({ settings, ...column })];
    const turn = wholeTurn(a, { next_stop_strings: ['next'] });
    return rowOf([...lines, ...turn, a.end({ stop_reason: 'max_turns' })], { sample, semantics });
  };

  test('have the semantics that are not standard', () => {
    assert.equal(row('nemo-rl-async', {})['semantics'], 'nemo-rl-async');
    assert.ok(!('semantics' in row('standard', {})));
  });

  test('under nemo-rl-sync stop_strings come back as they ended, if there was a column', () => {
    assert.deepEqual(row('nemo-rl-sync', { stop_strings: ['a'] })['stop_strings'], ['next']);
    assert.deepEqual(row('nemo-rl-sync', { stop_strings: null })['stop_strings'], ['next']);
    assert.ok(!('stop_strings' in row('nemo-rl-sync', {})));
    assert.equal(row('nemo-rl-sync', {})['idx'], 70);
  });

  test('under nemo-rl-async and nemo-rl idx is the row and stop_strings are the sample’s', () => {
    for (const semantics of ['nemo-rl-async', 'nemo-rl'] as const) {
      const { idx, stop_strings } = row(semantics, { stop_strings: ['a'] });
      assert.deepEqual([idx, stop_strings], [7, ['a']], semantics);
    }
  });

  test('under standard neither changes', () => {
    const standard = row('standard', { stop_strings: ['a'] });
    assert.equal(standard['idx'], 70);
    assert.deepEqual(standard['stop_strings'], ['a']);
  });

  test('under standard idx is the row and loss_multiplier 1 where the sample has none; upstream adds no column', () => {
    const { message_log, task_name } = SAMPLE;
    const bare = (semantics: Semantics): Row =>
      rowOf([...started(), ...played], { sample: { message_log, task_name }, semantics });
    const { idx, loss_multiplier } = bare('standard');
    assert.deepEqual([idx, loss_multiplier], [7, 1]);
    assert.ok(!('idx' in bare('nemo-rl-sync')));
    assert.ok(!('loss_multiplier' in bare('nemo-rl-async')));
    assert.ok(!('loss_multiplier' in bare('nemo-rl')));
  });
});

describe('the summary of a row', () => {
  const lines = [...started(), ...played, a.fault({ turn: 2 }), a.end({ at: 109 })];
  const summary = toSummary(rowOf(lines), foldOf(lines));

  test('has what metrics need, and reads back', () => {
    assert.deepEqual(Summary.parse(JSON.parse(JSON.stringify(summary))), summary);
    const { turns, gen_tokens, env_tokens, max_gen_tokens, reward, faults } = summary;
    assert.deepEqual([turns, gen_tokens, env_tokens, max_gen_tokens, reward], [2, 3, 1, 2, 1.5]);
    assert.deepEqual(faults, { GenerationUnavailable: 1 });
    assert.deepEqual([summary.started_at, summary.ended_at, summary.wall_s], [100, 109, 9]);
  });

  test('is small however long the rollout was', () => {
    assert.ok(JSON.stringify(summary).length < 600, JSON.stringify(summary));
  });
});
