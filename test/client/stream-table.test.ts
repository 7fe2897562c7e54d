import assert from 'node:assert/strict';
import test from 'node:test';
import type { StreamProgress } from '../../src/activities/contract/stream.js';
import { streamTable } from '../../src/client/stream-table.js';

const PROGRESS: StreamProgress = {
  phase: 'running',
  step: 3,
  kept_from: 3,
  version: 2,
  served: 2,
  in_flight: 4,
  banked: 1,
  admitted: 12,
  out: { filtered: 0, dropped: 0, failed: 0, delivered: 6 },
  lag: 1,
  max_in_flight: 4,
  why: '1 of 2 groups is complete',
  waiting: null,
};

test('a stream’s table says under the cause of the next step what all of it waits for, on one plain line', () => {
  const waiting = {
    service: 'policy default',
    message: 'no replica serves:\n\u001b[31mhttp://c is unknown',
    since: '2026-01-01 12:30:05 UTC',
  };
  const [head, ...lines] = streamTable('s', { ...PROGRESS, waiting });
  assert.equal(head, 's: running, next step 3, version 2, lag 1');
  assert.deepEqual(lines.slice(0, 3), [
    '1 of 2 groups is complete',
    'waiting for policy default (since 2026-01-01 12:30:05 UTC): no replica serves: http://c is unknown',
    '',
  ]);
});

test('a stream’s table ends with what waits for slots, and how it shares them', () => {
  const slots = { queued: 3, priority: 1, share: 4 };
  assert.equal(
    streamTable('s', { ...PROGRESS, ...slots }).at(-1),
    'waiting for slots 3 (of all)   priority 1   share 4',
  );
  assert.match(streamTable('s', { ...PROGRESS, queued: 0 }).at(-1) ?? '', /^ *4 +1 /);
});

test('a stream that has ended is called stopped, with how to continue it', () => {
  const [head, why] = streamTable('s', { ...PROGRESS, phase: 'done' });
  assert.equal(head, 's: stopped, next step 3, version 2, lag 1');
  assert.equal(
    why,
    'its delivered steps stay, and starting its id again with the same request continues it',
  );
});

test('a stream that waits for nothing outside has no such line', () => {
  const waits = streamTable('s', PROGRESS);
  assert.deepEqual(waits.slice(1, 3), ['1 of 2 groups is complete', '']);
});

test('a stream’s table says why rollouts failed since the last step, three reasons at most, and counts groups without a token to train on', () => {
  const of = (rollouts: number, example: string) => ({ rollouts, message: 'a\nb', example });
  const failures = { A: of(1, 's/1-0'), B: of(9, 's/2-0'), C: of(3, 's/3-0'), D: of(2, 's/4-0') };
  const out = { ...PROGRESS.out, untrained: 17 };
  const lines = streamTable('s', { ...PROGRESS, failures, out });
  assert.deepEqual(lines.slice(2, 7), [
    'failed since the last step:',
    '  B (9 rollouts, such as s/2-0): a b',
    '  C (3 rollouts, such as s/3-0): a b',
    '  D (2 rollouts, such as s/4-0): a b',
    '',
  ]);
  const [names = '', counts = ''] = lines.slice(7);
  assert.match(names, / untrained {2}/);
  assert.equal(counts.indexOf('17') + 2, names.indexOf('untrained') + 'untrained'.length);
});
