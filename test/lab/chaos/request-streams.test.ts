import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openBetween, sentAfter, streamsOf } from '../../../lab/chaos/request-streams.js';
import type { LogLine, RequestEntry } from '../../../simulator/request-log.js';

const time = (ms: number): string => new Date(ms).toISOString();

function entry(request_id: string, at: number): RequestEntry {
  const parts = /^(.+)\.(\d+)\.([^.]+)$/.exec(request_id);
  return {
    ...{ request_id, at: time(at) },
    rollout_id: parts?.[1] ?? null,
    turn: parts === null ? null : Number(parts[2]),
    writer: parts?.[3] ?? null,
    session_id: null,
    prompt_tokens: 5,
    tokens_sent: 0,
    finish_reason: null,
    outcome: 'open',
    fault: null,
    seed: null,
    weights: [],
  };
}

const arrived = (id: string, at: number): LogLine => ({
  event: 'arrived',
  logged_at: time(at),
  ...entry(id, at),
});
const sent = (
  id: string,
  { at, now, tokens_sent }: { at: number; now: number; tokens_sent: number },
): LogLine => ({
  ...{
    event: 'sent',
    logged_at: time(now),
    request_id: id,
    at: time(at),
    tokens_sent,
    weights: [],
  },
});
const ended = (
  id: string,
  { at, now, ...more }: { at: number; now: number } & Partial<Omit<RequestEntry, 'at'>>,
): LogLine => ({
  ...{ event: 'ended', logged_at: time(now), ...entry(id, at), ...more },
});

test('a request is put together from its lines', () => {
  const [stream, ...others] = streamsOf([
    arrived('b/0-0.2.w', 10),
    arrived('someone else', 10),
    sent('b/0-0.2.w', { at: 10, now: 20, tokens_sent: 3 }),
    sent('b/0-0.2.w', { at: 10, now: 30, tokens_sent: 8 }),
    ended('b/0-0.2.w', {
      at: 10,
      now: 31,
      tokens_sent: 8,
      outcome: 'complete',
      finish_reason: 'stop',
    }),
  ]);
  assert.deepEqual(others, []);
  const { rollout_id, turn, writer, tokens_sent, outcome, whole, arrived_at, ended_at } = stream!;
  assert.deepEqual([rollout_id, turn, writer], ['b/0-0', 2, 'w']);
  assert.deepEqual(
    [tokens_sent, outcome, whole, arrived_at, ended_at],
    [8, 'complete', true, 10, 31],
  );
  assert.deepEqual(
    [sentAfter(stream!, 5), sentAfter(stream!, 20), sentAfter(stream!, 30)],
    [8, 5, 0],
  );
});

test('an aborted one is not whole, and one that has no end ends a second after its last sign of life', () => {
  const [aborted, killed] = streamsOf([
    arrived('b/1-0.0.w', 1),
    ended('b/1-0.0.w', { at: 1, now: 2, outcome: 'complete', finish_reason: 'abort' }),
    arrived('b/0-0.0.w', 10),
    sent('b/0-0.0.w', { at: 10, now: 20, tokens_sent: 3 }),
  ]);
  assert.equal(aborted!.whole, false);
  assert.deepEqual([killed!.tokens_sent, killed!.ended_at], [3, 1020]);
  const open = openBetween([aborted!, killed!], { from: 30, to: 30 });
  assert.deepEqual(open, [killed]);
});
