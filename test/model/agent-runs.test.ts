import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { agentOutcomeOf } from '../../gym/collection/follow/agent-outcome.js';
import type { JournalLine } from '../../src/model/journal.js';
import { parseLine } from '../../src/model/journal.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import { toSummary } from '../../src/model/results/summary.js';
import { Sample } from '../../src/model/sample.js';
import { naturalEnd, nextStep } from '../../src/model/turn/stop-rules.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { SETTINGS, author, foldOf } from '../fakes/journal-lines.js';
import { plainOf } from '../../src/platform/json/kept.js';
import { plainly } from '../fakes/plainly.js';

const INFO = {
  agent: 'simple_agent',
  task_index: 3,
  rollout_index: 1,
  attempt_index: 1,
  row: '{}',
};
const a = author('a');
const b = author('b');
const start = a.start({
  plays: 'agent',
  prompt: [],
  settings: { ...SETTINGS, model: '' },
  extra_env_info: INFO,
});
const fold = (...lines: JournalLine[]): Trajectory => foldOf([a.claim(), start, ...lines]);
const failed = a.end({
  at: 9,
  stop_reason: 'failed',
  failure: { type: 'EnvironmentUnavailable', message: 'lost', turn: 0 },
});
const refused = a.fault({
  type: 'EnvironmentUnavailable',
  message: 'POST http://agent/run answered 500: boom',
  failure_class: 'agent_run_error',
  status: 500,
});
const judged = a.result({ attempt: 2, reward: null, failure_class: 'judge', text: '{"x":1}' });

describe('a rollout that an agent plays', () => {
  test('is run until there is a result, which terminates it', () => {
    assert.equal(nextStep(fold()), 'run');
    assert.equal(nextStep(fold(a.run({ attempt: 1 }), refused)), 'run');
    assert.equal(naturalEnd(fold(a.run({ attempt: 1 }))), null);
    assert.equal(naturalEnd(fold(a.run({ attempt: 1 }), a.result({ attempt: 1 }))), 'terminated');
  });

  test('counts requests as they are about to be sent, and keeps how the last one failed', () => {
    const { agent } = fold(
      a.run({ attempt: 1 }),
      judged,
      a.run({ attempt: 2 }),
      judged,
      a.run({ attempt: 3 }),
      refused,
    );
    assert.deepEqual([agent.attempts, agent.run?.attempt], [3, 3]);
    assert.deepEqual([agent.result, agent.failure, agent.fault], [null, null, refused]);
    assert.equal(fold(a.run({ attempt: 2 }), judged).agent.failure, judged);
    assert.equal(fold(a.run({ attempt: 2 }), judged, a.run({ attempt: 3 })).agent.failure, null);
  });

  test('keeps a fault of a server that was not there out of its runs', () => {
    const { agent, faults } = fold(a.fault({ type: 'EnvironmentUnavailable' }));
    assert.deepEqual(
      [agent.attempts, agent.fault, faults],
      [0, null, { EnvironmentUnavailable: 1 }],
    );
  });

  test('is as it was before a run that was taken back', () => {
    const cut = a.fault({ type: 'Cancelled', uncounted: true });
    assert.deepEqual(fold(a.run({ attempt: 1 }), cut).agent, { ...fold().agent, taken_back: 1 });
    const before = fold(a.run({ attempt: 1 }), refused).agent;
    assert.deepEqual(fold(a.run({ attempt: 1 }), refused, a.run({ attempt: 2 }), cut).agent, {
      ...before,
      taken_back: 2,
    });
    assert.deepEqual(
      fold(a.run({ attempt: 1 }), refused, cut).agent,
      before,
      'no run is in progress',
    );
    const { agent } = fold(
      a.run({ attempt: 1 }),
      cut,
      a.run({ attempt: 1 }),
      a.result({ attempt: 1 }),
    );
    assert.deepEqual([agent.attempts, agent.result?.attempt], [1, 1]);
  });

  test('says since when its agent plays the run that counts, where the one before was taken back', () => {
    const cut = a.fault({ type: 'Cancelled', uncounted: true });
    const ended = (...lines: JournalLine[]): Trajectory =>
      fold(...lines, a.end({ stop_reason: 'terminated' }));
    const sent = (attempt: number, at: number): JournalLine => ({ ...a.run({ attempt }), at });
    const since = (trajectory: Trajectory): unknown => {
      const outcome = agentOutcomeOf(trajectory);
      assert.ok(outcome?.kind === 'result');
      return outcome.since;
    };
    const result = a.result({ attempt: 1 });
    assert.equal(since(ended(sent(1, 5), cut, sent(1, 7), result)), 7);
    assert.equal(since(ended(sent(1, 5), result)), null);
    const next = a.result({ attempt: 2 });
    assert.equal(since(ended(sent(1, 5), cut, sent(1, 7), refused, sent(2, 8), next)), null);
  });

  test('waits for a server that took no run', () => {
    const full = { ...refused, status: 503, uncounted: true as const };
    const { agent } = fold(a.run({ attempt: 1 }), full);
    assert.deepEqual([agent.attempts, agent.fault, agent.absent], [0, null, full]);
    assert.equal(fold(a.run({ attempt: 1 }), full, a.run({ attempt: 1 })).agent.absent, null);
  });

  test('takes the first result that counts, and of no run but the last', () => {
    const first = a.result({ attempt: 1, reward: 0.25 });
    const { agent, total_reward } = fold(a.run({ attempt: 1 }), first, a.result({ attempt: 1 }));
    assert.deepEqual([agent.result, total_reward], [first, 0.25]);
    assert.equal(fold(a.run({ attempt: 1 }), a.result({ attempt: 0 })).agent.result, null);
  });

  test('ignores a run and a result of a writer that was replaced', () => {
    const { agent } = fold(b.claim(), a.run({ attempt: 1 }), a.result({ attempt: 1 }));
    assert.deepEqual(agent, fold().agent);
  });

  test('has its tokens from the usage that the answer tells', () => {
    const usage = { output_tokens: 7, total_tokens: 30 };
    const { assistant_tokens, env_tokens } = fold(
      a.run({ attempt: 1 }),
      a.result({ attempt: 1, usage }),
    );
    assert.deepEqual([assistant_tokens, env_tokens], [7, 23]);
  });
});

describe('an answer whose reward means nothing', () => {
  const text = '{"reward":0,"judge_failed":true}';
  const masked = a.result({ attempt: 1, reward: 0, masked: 'judge_failed', text });
  const trajectory = fold(a.run({ attempt: 1 }), masked, failed);

  test('is how the run failed, and no valid end', () => {
    const { agent, total_reward } = trajectory;
    assert.deepEqual([agent.result, agent.failure, total_reward], [null, masked, 0]);
    assert.equal(naturalEnd(fold(a.run({ attempt: 1 }), masked)), null);
  });

  test('is a result of its collection', () => {
    assert.deepEqual(agentOutcomeOf(trajectory), {
      kind: 'result',
      at: 9,
      attempt: 1,
      text,
      since: null,
    });
    const both = fold(a.run({ attempt: 1 }), { ...masked, failure_class: 'judge' }, failed);
    assert.equal(agentOutcomeOf(both)?.kind, 'failure');
  });
});

describe('an answer whose tokens cannot be trained on', () => {
  const refusal = { type: 'ProtocolError', message: 'Non-contiguous messages found!' } as const;
  const given = a.result({ attempt: 1, reward: 1, refused: refusal, text: '{"reward":1}' });
  const trajectory = fold(a.run({ attempt: 1 }), given, failed);

  test('is how the run failed, whatever its reward, and a result of its collection', () => {
    const { agent, total_reward } = trajectory;
    assert.deepEqual([agent.result, agent.failure, total_reward], [null, given, 0]);
    assert.equal(agentOutcomeOf(trajectory)?.kind, 'result');
  });
});

describe('the lines of an agent', () => {
  const whole = {
    refused: { type: 'ProtocolError', message: '' },
    tokens: { prompt: 1, env: 0, calls: [2] },
    rewards: { a: 1 },
  } as const;
  for (const line of [
    start,
    a.run(),
    a.result(),
    a.result({ ...whole, tokens: { ...whole.tokens, calls: [2] } }),
    judged,
    refused,
    a.fault({ uncounted: true }),
  ]) {
    test(`of kind ${line.kind} are read as they were written`, () => {
      assert.deepEqual(plainly(parseLine(JSON.stringify(line))), line);
    });
  }

  test('cannot hold a reward that is no number', () => {
    assert.equal(parseLine(JSON.stringify(a.result()).replace('"reward":1', '"reward":"1"')), null);
  });
});

describe('what became of a row', () => {
  const run = a.run({ attempt: 2 });

  test('is open until the rollout has ended', () => {
    assert.equal(agentOutcomeOf(fold(run, judged)), null);
  });

  test('is its result, as the agent gave it', () => {
    const result = a.result({ attempt: 2, text: '{"reward": 1.0}' });
    assert.deepEqual(agentOutcomeOf(fold(run, result, a.end({ at: 9 }))), {
      kind: 'result',
      at: 9,
      attempt: 2,
      text: '{"reward": 1.0}',
      since: null,
    });
  });

  const failure = {
    kind: 'failure',
    at: 9,
    attempt: 2,
    terminal: false,
    persist: true,
    text: null,
    status: null,
    since: null,
  };
  const lost = { type: 'EnvironmentUnavailable', message: 'lost' };

  test('is a failure of the class that the agent named', () => {
    const line = { ...judged, terminal: true };
    assert.deepEqual(agentOutcomeOf(fold(run, line, failed)), {
      ...failure,
      ...lost,
      failure_class: 'judge',
      terminal: true,
      text: '{"x":1}',
    });
  });

  test('that is not kept has no class', () => {
    const line = a.result({ attempt: 2, persist: false });
    const outcome = agentOutcomeOf(fold(run, line, failed));
    assert.ok(outcome?.kind === 'failure');
    assert.deepEqual([outcome.failure_class, outcome.persist], [null, false]);
  });

  test('is the last fault of a run, with the status that the server answered', () => {
    assert.deepEqual(agentOutcomeOf(fold(run, refused, failed)), {
      ...failure,
      failure_class: 'agent_run_error',
      status: 500,
      type: refused.type,
      message: refused.message,
    });
  });

  test('is a failed request where a run was never answered', () => {
    const expected = { ...failure, ...lost, failure_class: 'agent_request_failed' };
    assert.deepEqual(agentOutcomeOf(fold(a.run({ attempt: 1 }), refused, run, failed)), expected);
    assert.deepEqual(agentOutcomeOf(fold(failed)), { ...expected, attempt: 1 });
  });

  test('is a failure of class timeout where its time was up, whatever failed before', () => {
    const end = a.end({ at: 9, stop_reason: 'timeout', failure: null });
    const outcome = agentOutcomeOf(fold(run, refused, end));
    assert.ok(outcome?.kind === 'failure');
    assert.deepEqual([outcome.failure_class, outcome.attempt], ['timeout', 2]);
  });

  for (const stop_reason of ['stopped', 'cancelled'] as const) {
    test(`is no failure where it was ${stop_reason}`, () => {
      const outcome = agentOutcomeOf(fold(run, refused, a.end({ at: 9, stop_reason })));
      assert.deepEqual(outcome, { kind: 'unfinished', at: 9 });
    });
  }
});

describe('the row of a rollout that an agent played', () => {
  const sample = Sample.parse({ message_log: [], task_name: 'task', extra_env_info: INFO });
  const rowOf = (trajectory: Trajectory) =>
    toRow({
      sample,
      ref: { batch_id: 'batch', row: 0, repeat: 0 },
      semantics: 'standard',
      trajectory,
      outcome: outcomeOf(trajectory, { stop_reason: 'cancelled' }),
    });

  test('has its result, reward, tokens and time', () => {
    const usage = { output_tokens: 7, total_tokens: 30 };
    const result = a.result({
      attempt: 2,
      text: '{"reward":0.5,"x":[1]}',
      reward: 0.5,
      usage,
      run_s: 3,
    });
    const trajectory = fold(a.run({ attempt: 2 }), result, a.end());
    const row = rowOf(trajectory);
    const { agent_result, total_reward, total_tokens, terminated, message_log, timing } = row;
    assert.deepEqual(
      {
        agent_result: plainOf(agent_result),
        ...{ total_reward, total_tokens, terminated, message_log, step_s: timing.step_s },
      },
      {
        agent_result: { reward: 0.5, x: [1] },
        total_reward: 0.5,
        total_tokens: 30,
        terminated: true,
        message_log: [],
        step_s: 3,
      },
    );
    const { reward, gen_tokens, env_tokens, stop_reason } = toSummary(row, trajectory);
    assert.deepEqual([reward, gen_tokens, env_tokens, stop_reason], [0.5, 7, 23, 'terminated']);
  });

  const call = (prompt: number[], generated: number[]) => ({
    type: 'message',
    prompt_token_ids: prompt,
    generation_token_ids: generated,
    generation_log_probs: generated.map(() => -0.5),
  });

  test('has the tokens of its calls where its model server returned them, and its result is without them', () => {
    const output = [
      call([1, 2], [3, 4]),
      { type: 'function_call_output' },
      call([1, 2, 3, 4, 5], [6]),
    ];
    const text = JSON.stringify({ reward: 1, response: { output } });
    const tokens = { prompt: 2, env: 1, calls: [2, 1] };
    const trajectory = fold(a.run({ attempt: 1 }), a.result({ attempt: 1, text, tokens }), a.end());
    const row = rowOf(trajectory);
    assert.deepEqual(
      row.message_log.map(({ role, token_ids }) => [role, token_ids]),
      [
        ['user', [1, 2]],
        ['assistant', [3, 4]],
        ['user', [5]],
        ['assistant', [6]],
      ],
    );
    assert.deepEqual(
      [
        row.prompt_tokens,
        row.assistant_tokens,
        row.env_tokens,
        row.turn_count,
        row.policy_versions,
        row.untokenized,
      ],
      [2, 3, 1, 2, [{ start: 0, end: 3, version: null }], undefined],
    );
    const types = [{ type: 'message' }, { type: 'function_call_output' }, { type: 'message' }];
    assert.deepEqual(plainOf(row.agent_result), { reward: 1, response: { output: types } });
    assert.equal(toSummary(row, trajectory).max_gen_tokens, 2);
  });

  test('says why it has no tokens', () => {
    const { message_log, untokenized } = rowOf(
      fold(a.run({ attempt: 1 }), a.result({ attempt: 1 }), a.end()),
    );
    assert.deepEqual(message_log, []);
    assert.match(untokenized ?? '', /no generation data: .*there are none/);
  });

  test('is truncated where its log is exactly as long as the model takes', () => {
    const text = JSON.stringify({ response: { output: [call([1, 2], [3])] } });
    const full = a.start({ ...start, settings: { ...SETTINGS, model: '', max_seq_len: 3 } });
    const result = a.result({ attempt: 1, text, tokens: { prompt: 2, env: 0, calls: [1] } });
    const played = foldOf([a.claim(), full, a.run({ attempt: 1 }), result, a.end()]);
    assert.deepEqual([rowOf(played).truncated, rowOf(played).stop_reason], [true, 'terminated']);
    assert.equal(rowOf(fold(a.run({ attempt: 1 }), result, a.end())).truncated, false);
  });

  test('that failed has what the agent said, and no reward', () => {
    const row = rowOf(fold(a.run({ attempt: 2 }), { ...judged, reward: 1 }, failed));
    assert.deepEqual(
      [plainOf(row.agent_result), row.total_reward, row.terminated],
      [{ x: 1 }, 0, false],
    );
    assert.equal(row.failure?.message, 'lost');
  });

  test('that was never answered has none', () => {
    assert.ok(!('agent_result' in rowOf(fold(a.run({ attempt: 2 }), refused, failed))));
  });
});
