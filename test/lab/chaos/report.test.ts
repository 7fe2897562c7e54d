import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { tokenLimit } from '../../../lab/chaos/bounds.js';
import type { FaultReport } from '../../../lab/chaos/report.js';
import { judged, summarized } from '../../../lab/chaos/report.js';

const MEASURED: Parameters<typeof judged>[0] = {
  name: 'worker-kill',
  hits: 1,
  held_s: 0.5,
  interrupts: 'open_streams',
  interrupted_streams: 3,
  tokens_after_disconnect: 4,
  tokens_limit: 154,
  extra_attempts: 3,
  rollouts_lost: 0,
  rows_duplicated: 0,
  turns_generated_twice: 0,
  tokens_sampled_twice: 100,
  recovery_s: 2.5,
  durable: { wasted_tokens: 100, time_to_finish_s: 8 },
  restart_all: { wasted_tokens: 900, time_to_finish_s: 12 },
  restart_unfinished: null,
};

const report = (faults: FaultReport[], not_played: { name: string; reason: string }[] = []) =>
  summarized({
    seed: 3,
    form: 'short',
    store: 'file',
    duration_s: 20,
    faults,
    kills: [],
    day: [],
    not_played,
  });

describe('the limit of tokens sampled twice', () => {
  const pace = { tokens_per_second: 200, heartbeat_timeout_s: 2, commit_s: 0 };
  const interrupted = { streams: 3, tokens_after_disconnect: 4 };
  const limit = (interrupts: FaultReport['interrupts'], rate = 200): number =>
    tokenLimit(interrupts, { interrupted, pace: { ...pace, tokens_per_second: rate } });

  test('is 64 or 250 ms for each interrupted stream, whichever is less', () => {
    assert.equal(limit('hit_requests'), 3 * 50);
    assert.equal(limit('streams_while_held', 1000), 3 * 64);
  });

  test('is a commit more where that is on its way', () => {
    const slow = { ...pace, commit_s: 0.1 };
    assert.equal(tokenLimit('hit_requests', { interrupted, pace: slow }), 3 * 70);
  });

  test('leaves the engine’s time until it notices apart', () => {
    assert.equal(limit('open_streams'), 3 * 50 + 4);
  });

  test('is the heartbeat timeout and 15 s for a stopped worker, and none where nothing is interrupted', () => {
    assert.equal(limit('stopped_worker'), 3 * 17 * 200);
    assert.equal(limit('nothing'), 0);
  });
});

describe('a fault', () => {
  test('within its bounds is not broken', () => {
    assert.deepEqual(judged(MEASURED).broken, []);
    assert.equal(report([judged(MEASURED)]).ok, true);
  });

  test('that lost, duplicated or generated again is broken, and says what', () => {
    const { broken } = judged({
      ...MEASURED,
      rollouts_lost: 1,
      rows_duplicated: 2,
      turns_generated_twice: 3,
    });
    assert.deepEqual(broken, [
      'rollouts_lost: expected 0, got 1',
      'rows_duplicated: expected 0, got 2',
      'turns_generated_twice: expected 0, got 3',
    ]);
  });

  test('over the token limit is broken', () => {
    const over = { ...MEASURED, tokens_sampled_twice: 155 };
    assert.deepEqual(judged(over).broken, ['tokens_sampled_twice: expected at most 154, got 155']);
  });

  test('that struck nothing is broken: it has shown nothing', () => {
    const { broken } = judged({ ...MEASURED, interrupted_streams: 0 });
    assert.match(broken.join(), /struck nothing/);
  });
});
