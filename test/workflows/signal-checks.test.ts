import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BatchRequest } from '../../src/model/batch-request.js';
import { problemsOf } from '../../src/model/problems.js';
import { limitsProblem } from '../../src/model/workflow-safe/limits.js';
import { isUndecodable } from '../../src/model/workflow-safe/undecodable.js';
import { payloadConverter } from '../../src/workflows/payload-converter.js';
import {
  isGroupNews,
  isShare,
  isTallyOf,
  isWaiting,
} from '../../src/workflows/steering/input-checks.js';
import { BY_HAND, RUBBISH, UNREADABLE } from '../fakes/hostile-inputs.js';
import { writeHistory } from '../harness/written-history.js';

const TALLY = { done: 3, running: 1, valid: 2, turns: 9, tokens: 90, reward_sum: -1.5 };

describe('what a signal brings', () => {
  test('is that an engine is absent, where it names service and message, or that it is back', () => {
    assert.ok(isWaiting(null));
    assert.ok(isWaiting({ service: 'http://engine', message: 'refused' }));
    for (const value of [...RUBBISH, 3, { service: 'engine' }, { service: 1, message: 'x' }])
      assert.ok(!isWaiting(value), JSON.stringify(value));
  });

  test('is a share, where it is one or two counts', () => {
    assert.ok(isShare(0, undefined));
    assert.ok(isShare(4, 2));
    const rubbish = RUBBISH.filter((value) => value !== 1e300).map((value) => [value]);
    for (const [inFlight, replacements] of [
      ...rubbish,
      [null],
      [NaN],
      [4, null],
      [4, '2'],
      [4, -1],
    ])
      assert.ok(!isShare(inFlight, replacements), JSON.stringify([inFlight, replacements]));
  });

  test('is a slice’s counts, where each of them is a number', () => {
    assert.ok(isTallyOf({ first: 0, tally: TALLY }));
    assert.ok(isTallyOf({ first: 64, tally: { ...TALLY, replacements: 1 } }));
    const failures = { StoreFault: { rollouts: 1, message: 'x' } };
    assert.ok(isTallyOf({ first: 0, tally: { ...TALLY, failures } }));
    assert.ok(!isTallyOf({ first: 0, tally: { ...TALLY, failures: { StoreFault: 1 } } }));
    for (const value of [
      ...RUBBISH,
      null,
      { first: 0, tally: null },
      { tally: TALLY },
      { first: '0', tally: TALLY },
      { first: 0, tally: { done: 3 } },
      { first: 0, tally: { ...TALLY, reward_sum: null } },
      { first: 0, tally: { ...TALLY, replacements: 'x' } },
    ])
      assert.ok(!isTallyOf(value), JSON.stringify(value));
  });
});

describe('the news of a group', () => {
  test('is a group with an outcome that is known, and failures that can be counted', () => {
    const failures = { StoreFault: { rollouts: 1, message: 'x', example: 'b/0-0' } };
    for (const outcome of ['complete', 'filtered', 'untrained', 'failed', null])
      assert.ok(isGroupNews({ group: 3, outcome }), String(outcome));
    assert.ok(isGroupNews({ group: 3, outcome: 'failed', failures }));
    const wrong = { StoreFault: { rollouts: 1, message: 'x', example: 7 } };
    for (const value of [
      ...RUBBISH,
      null,
      { group: 3 },
      { group: 3, outcome: 'lost' },
      { group: -1, outcome: null },
      { group: 3, outcome: 'failed', failures: 7 },
      { group: 3, outcome: 'failed', failures: wrong },
    ])
      assert.ok(!isGroupNews(value), JSON.stringify(value));
  });
});

describe('what nobody can read', () => {
  for (const { what, sent, says } of UNREADABLE)
    test(`is a value that is passed on as it came, and that every check refuses: ${what}`, () => {
      const value: unknown = payloadConverter.fromPayload(sent);
      assert.ok(isUndecodable(value));
      assert.equal(payloadConverter.toPayload(value), sent);
      assert.match(value.problem, says);
      assert.match(limitsProblem(value) ?? '', says);
      const { error } = BatchRequest.safeParse(value);
      assert.match(problemsOf(error!, value)[0]?.what ?? '', says);
      const checks = [isWaiting, (one: unknown) => isShare(one, undefined), isTallyOf, isGroupNews];
      for (const check of checks) assert.ok(!check(value));
    });
});

describe('a workflow that only workflows start', () => {
  for (const [what, type, args] of BY_HAND)
    test(`fails by hand, before it does anything: ${what}`, async () => {
      const history = writeHistory({ type, workflowId: 'by-hand' }, ...args);
      history.task();
      history.add('WORKFLOW_EXECUTION_FAILED', {});
      await history.replay();
    });
});

describe('a signal of no known shape is ignored', () => {
  test('by a slice, which continues with the share that it had', async () => {
    const history = writeHistory(
      { type: 'rolloutSlice', workflowId: 'b/rows-0-0', parent: 'b' },
      { batch_id: 'b', first: 0, last: 0, num_repeats: 2, max_in_flight: 1, tallies: 0, k: null },
    );
    history.task();
    const child = history.startChild('rollout', 'b/0-0');
    history.childStarted(child, { type: 'rollout', workflowId: 'b/0-0' });
    history.signal('share');
    history.signal('share', 'all');
    // Sent to those that run, it would be a command.
    history.signal('limits', { max_turns: 3 });
    history.task();
    history.childCompleted(child, { stop_reason: 'stopped', turn_count: 0 });
    history.task();
    const second = history.startChild('rollout', 'b/0-1');
    history.childStarted(second, { type: 'rollout', workflowId: 'b/0-1' });
    history.task();
    history.childCompleted(second, { stop_reason: 'stopped', turn_count: 0 });
    history.task();
    history.activity('closeSlice', null);
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });

  test('by a batch of slices, which ends when its own slices have', async () => {
    const history = writeHistory({ type: 'rolloutBatch', workflowId: 'b' }, {});
    history.task();
    history.activity('planBatch', {
      batch_id: 'b',
      samples: 2,
      num_repeats: 1,
      slices: [0, 1].map((row) => ({ first: row, last: row })),
      tallies: 1,
      max_in_flight: 2,
      limits: {},
      min_k: { k: 1, deadline_ms: null },
      refill: null,
      continued: false,
    });
    history.task();
    const ids = ['b/rows-0-0', 'b/rows-1-1'];
    const children = ids.map((workflowId) => history.startChild('rolloutSlice', workflowId));
    for (const [i, workflowId] of ids.entries())
      history.childStarted(children[i]!, { type: 'rolloutSlice', workflowId });
    history.signal('waiting');
    history.signal('waiting', { service: 'engine' });
    history.signal('tally');
    history.signal('tally', { first: 0 });
    history.task();
    history.childCompleted(children[1]!, TALLY);
    history.task();
    history.signalChild('share', ids[0]!);
    history.childCompleted(children[0]!, TALLY);
    history.task();
    history.activity('closeBatch', { counts: { requested: 2, completed: 2 } });
    history.task();
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });

  test('by a rollout that starts', async () => {
    const history = writeHistory({ type: 'rollout', workflowId: 'b/0-0', parent: 'b' }, {});
    history.signal('waiting');
    history.signal('waiting', 'engine');
    history.task();
    history.activity('openRollout', {
      batch_id: 'b',
      row: 0,
      repeat: 0,
      task_name: 't',
      policy_version: null,
      limits: { rollout_timeout: '1s' },
      progress: { turn: 0, ended: 'max_turns', total_reward: 0, total_tokens: 0 },
    });
    history.task();
    history.add('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES', {});
    history.add('WORKFLOW_EXECUTION_COMPLETED', {});
    await history.replay();
  });
});

describe('signals that come again and again', () => {
  const stopped = { stop_reason: 'stopped', turn_count: 0 };

  /** A slice of one rollout, which runs. */
  const slice = () => {
    const history = writeHistory(
      { type: 'rolloutSlice', workflowId: 'b/rows-0-0', parent: 'b' },
      { batch_id: 'b', first: 0, last: 0, num_repeats: 1, max_in_flight: 1, tallies: 0, k: null },
    );
    history.task();
    const child = history.startChild('rollout', 'b/0-0');
    history.childStarted(child, { type: 'rollout', workflowId: 'b/0-0' });
    const end = async (): Promise<void> => {
      history.task();
      history.childCompleted(child, stopped);
      history.task();
      history.activity('closeSlice', null);
      history.task();
      history.add('WORKFLOW_EXECUTION_COMPLETED', {});
      await history.replay();
    };
    return { history, end };
  };
  test('more limits than the history has room for do not reach the rollouts', async () => {
    const { history, end } = slice();
    for (let n = 0; n < 10_000; n++) history.signal('share', 1);
    history.signal('limits', { max_rollout_turns: 3 });
    history.task();
    await end();
  });

  test('a second stop does not reach the rollouts', async () => {
    const { history, end } = slice();
    history.signal('stop');
    history.task();
    history.signalChild('stop', 'b/0-0');
    history.signal('stop');
    history.task();
    await end();
  });
});
