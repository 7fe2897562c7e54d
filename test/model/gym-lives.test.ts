/** The lives of a rollout that an agent of NeMo Gym plays, and what becomes of its row. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { agentOutcomeOf } from '../../gym/collection/follow/agent-outcome.js';
import type { JournalLine } from '../../src/model/journal.js';
import { parseLine } from '../../src/model/journal.js';
import { failedLives, failuresBefore, lastResult } from '../../src/model/journal/lives.js';
import { outcomeOf, resultOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import { toSummary } from '../../src/model/results/summary.js';
import { Sample } from '../../src/model/sample.js';
import { naturalEnd, nextStep } from '../../src/model/turn/stop-rules.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { SETTINGS, author, foldOf, gymLife, wholeCall } from '../fakes/journal-lines.js';
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
  program: { verify: null, tool_parser: 'hermes', reasoning_parser: 'none', history: 'append' },
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
/** A life whose run failed, without an answer. */
const died = (life: number): JournalLine[] => [
  a.life({ life }),
  a.exit({ life, code: 1 }),
  refused,
];
const judging = { code: 1, reward: null, failure_class: 'judge', text: '{"x":1}' };
const worth = (reward: number): JournalLine =>
  a.observation({ message: null, token_ids: [], reward, terminated: true });

describe('a rollout that an agent of NeMo Gym plays', () => {
  test('runs life after life until one has ended well, whose reward ends it', () => {
    assert.equal(nextStep(fold()), 'run');
    assert.equal(nextStep(fold(a.life())), 'run');
    assert.equal(nextStep(fold(a.life(), a.result())), 'run');
    assert.equal(nextStep(fold(...died(1))), 'run');
    assert.equal(nextStep(fold(...gymLife(a, judging))), 'run');
    const played = [...died(1), ...gymLife(a, { life: 2, attempt: 2 })];
    assert.equal(nextStep(fold(...played)), 'step');
    assert.equal(naturalEnd(fold(...played)), null);
    assert.equal(naturalEnd(fold(...played, worth(1))), 'terminated');
  });

  test('has failed as often before a life as lives failed by themselves: one that was lost is played again', () => {
    const counts = (...lines: JournalLine[]): number[] => {
      const trajectory = fold(...lines);
      return [failuresBefore(trajectory), failedLives(trajectory).length];
    };
    const next = (life: number): JournalLine => a.life({ life });
    assert.deepEqual(counts(), [0, 0]);
    assert.deepEqual(counts(...died(1)), [0, 1]);
    assert.deepEqual(counts(...died(1), next(2)), [1, 1]);
    assert.deepEqual(counts(...gymLife(a, judging), next(2)), [1, 1]);
    assert.deepEqual(counts(next(1), next(2)), [0, 0]);
    assert.deepEqual(counts(next(1), ...died(2), next(3)), [1, 1]);
  });

  test('that is opened again has all its attempts, and none of its indices twice', () => {
    const trajectory = fold(
      ...died(1),
      ...died(2),
      failed,
      a.claim({ reopen: true }),
      a.life({ life: 3 }),
    );
    assert.deepEqual([failedLives(trajectory).length, failuresBefore(trajectory)], [0, 2]);
  });

  test('has the answer of its last life as result, if that ended well, and else what was said last', () => {
    const first = gymLife(a, judging);
    const said = fold(...first, ...died(2));
    assert.deepEqual([lastResult(said)?.text, resultOf(said)], ['{"x":1}', null]);
    const ended = fold(...first, ...gymLife(a, { life: 2, text: '{"reward":1}' }));
    assert.equal(lastResult(ended)?.text, '{"reward":1}');
    assert.equal(resultOf(ended), lastResult(ended));
    assert.equal(resultOf(fold(a.life(), a.result())), null);
  });

  test('takes the last result of a life, and none behind its end', () => {
    const [first, second] = [a.result({ text: '1' }), a.result({ text: '2' })];
    assert.equal(lastResult(fold(a.life(), first, second, a.exit(), first))?.text, '2');
    assert.equal(lastResult(fold(a.life(), a.exit({ code: 1 }), first)), null);
    assert.equal(lastResult(fold(first)), null);
  });

  test('ignores a life and a result of a writer that was replaced', () => {
    assert.deepEqual(fold(b.claim(), ...gymLife(a), worth(1)).lives, []);
  });

  test('has the tokens of the usage that the answer tells, unless this policy sampled them', () => {
    const usage = { output_tokens: 7, total_tokens: 30 };
    const own = fold(...gymLife(a, { usage }));
    assert.deepEqual([own.assistant_tokens, own.env_tokens], [7, 23]);
    const call = wholeCall(a, { cause: 'first', ids: [1, 2] });
    const [life, ...ended] = gymLife(a, { usage });
    assert.ok(life !== undefined);
    assert.equal(fold(life, ...call, ...ended).assistant_tokens, 2);
  });
});

describe('an answer whose reward means nothing', () => {
  const text = '{"reward":0,"judge_failed":true}';
  const masked = { code: 1, attempt: 1, reward: 0, masked: 'judge_failed', text };
  const trajectory = fold(...gymLife(a, masked), failed);

  test('is how the run failed, and no valid end', () => {
    assert.deepEqual([resultOf(trajectory), trajectory.total_reward], [null, 0]);
    assert.equal(lastResult(trajectory)?.masked, 'judge_failed');
    assert.equal(naturalEnd(fold(...gymLife(a, masked))), null);
  });

  test('is a result of its collection', () => {
    assert.deepEqual(agentOutcomeOf(trajectory), {
      kind: 'result',
      at: 9,
      attempt: 1,
      text,
      since: null,
    });
    const both = fold(...gymLife(a, { ...masked, failure_class: 'judge' }), failed);
    assert.equal(agentOutcomeOf(both)?.kind, 'failure');
  });
});

describe('an answer that cannot be trained on', () => {
  const refusal = { type: 'EnvironmentRejected', message: 'its components are no sum' } as const;
  const given = { code: 1, reward: 1, refused: refusal };

  test('is how the run failed, whatever its reward, and a result of its collection', () => {
    const trajectory = fold(...gymLife(a, given), failed);
    assert.deepEqual([resultOf(trajectory), trajectory.total_reward], [null, 0]);
    assert.equal(agentOutcomeOf(trajectory)?.kind, 'result');
  });
});

describe('the lines of an agent', () => {
  for (const line of [
    start,
    a.result(),
    a.result({
      refused: { type: 'EnvironmentRejected', message: '' },
      rewards: { a: 1 },
      usage: { output_tokens: 1, total_tokens: 2 },
    }),
    a.result({ reward: null, failure_class: 'judge', persist: false }),
    a.exit({ said: { reward: 1, rewards: { a: 1 }, metadata: null } }),
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
  test('is open until the rollout has ended', () => {
    assert.equal(agentOutcomeOf(fold(...gymLife(a), worth(1))), null);
  });

  test('is its result, as the agent gave it', () => {
    const life = gymLife(a, { attempt: 2, text: '{"reward": 1.0}' });
    assert.deepEqual(agentOutcomeOf(fold(...life, worth(1), a.end({ at: 9 }))), {
      kind: 'result',
      at: 9,
      attempt: 2,
      text: '{"reward": 1.0}',
      since: null,
    });
  });

  test('says since when its agent plays the run that counts, where the life before was lost', () => {
    const since = (...lines: JournalLine[]): unknown => {
      const outcome = agentOutcomeOf(fold(...lines, worth(1), a.end()));
      assert.ok(outcome?.kind === 'result');
      return outcome.since;
    };
    const lost = a.life({ at: 5 });
    const again = a.life({ life: 2, at: 7 });
    assert.equal(since(lost, again, a.result(), a.exit({ life: 2 })), 7);
    assert.equal(since(lost, a.result(), a.exit()), null);
    const failedAgain = [again, a.exit({ life: 2, code: 1 })];
    assert.equal(since(lost, ...failedAgain, ...gymLife(a, { life: 3 })), null);
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
    const said = gymLife(a, { life: 2, ...judging, terminal: true });
    assert.deepEqual(agentOutcomeOf(fold(...died(1), ...said, failed)), {
      ...failure,
      ...lost,
      failure_class: 'judge',
      terminal: true,
      text: '{"x":1}',
    });
  });

  test('that is not kept has no class', () => {
    const outcome = agentOutcomeOf(fold(...gymLife(a, { code: 1, persist: false }), failed));
    assert.ok(outcome?.kind === 'failure');
    assert.deepEqual([outcome.failure_class, outcome.persist], [null, false]);
  });

  test('is a failed request where a run was never answered', () => {
    const expected = { ...failure, ...lost, failure_class: 'agent_request_failed' };
    assert.deepEqual(agentOutcomeOf(fold(...died(1), a.life({ life: 2 }), failed)), expected);
    assert.deepEqual(agentOutcomeOf(fold(failed)), { ...expected, attempt: 1 });
  });

  test('is a failure of class timeout where its time was up, whatever failed before', () => {
    const end = a.end({ at: 9, stop_reason: 'timeout', failure: null });
    const outcome = agentOutcomeOf(fold(...died(1), ...died(2), end));
    assert.ok(outcome?.kind === 'failure');
    assert.deepEqual([outcome.failure_class, outcome.attempt], ['timeout', 2]);
  });

  for (const stop_reason of ['stopped', 'cancelled'] as const) {
    test(`is no failure where it was ${stop_reason}`, () => {
      const outcome = agentOutcomeOf(fold(...died(1), a.end({ at: 9, stop_reason })));
      assert.deepEqual(outcome, { kind: 'unfinished', at: 9 });
    });
  }
});

describe('the row of a rollout that an agent of NeMo Gym played', () => {
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
    const text = '{"reward":0.5,"x":[1]}';
    const life = gymLife(a, { attempt: 1, text, reward: 0.5, usage, run_s: 3 });
    const trajectory = fold(...life, worth(0.5), a.end());
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

  test('has the tokens of the calls that this policy answered, beside the whole answer', () => {
    const text = JSON.stringify({ reward: 1, response: { output: [{ type: 'message' }] } });
    const [life, ...ended] = gymLife(a, { text });
    assert.ok(life !== undefined);
    const calls = [
      ...wholeCall(a, { cause: 'first', prompt_ids: [1, 2], ids: [3, 4] }),
      ...wholeCall(a, { turn: 1, parent: 0, prompt_ids: [5], ids: [6] }),
      a.served({ turn: 1 }),
    ];
    const trajectory = fold(life, ...calls, ...ended, worth(1), a.end());
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
    const { prompt_tokens, assistant_tokens, env_tokens, turn_count, calls: asked } = row;
    assert.deepEqual(
      [prompt_tokens, assistant_tokens, env_tokens, turn_count, asked],
      [2, 3, 1, 2, 2],
    );
    assert.deepEqual(row.policy_versions, [{ start: 0, end: 3, version: null }]);
    assert.equal(row.untokenized, undefined);
    assert.deepEqual(plainOf(row.agent_result), JSON.parse(text));
    assert.equal(toSummary(row, trajectory).max_gen_tokens, 2);
  });

  test('says why it has no tokens', () => {
    const { message_log, train_mask, untokenized } = rowOf(fold(...gymLife(a), worth(1), a.end()));
    assert.deepEqual([message_log, train_mask], [[], []]);
    assert.match(untokenized ?? '', /^expected calls of the agent .*, got none: its own model/);
  });

  test('that failed has what the agent said last, and no reward', () => {
    const said = gymLife(a, { ...judging, reward: 1 });
    const row = rowOf(fold(...said, ...died(2), failed));
    assert.deepEqual(
      [plainOf(row.agent_result), row.total_reward, row.terminated],
      [{ x: 1 }, 0, false],
    );
    assert.equal(row.failure?.message, 'lost');
  });

  test('that was never answered has none', () => {
    assert.ok(!('agent_result' in rowOf(fold(...died(1), failed))));
  });
});
