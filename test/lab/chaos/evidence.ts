import type { Hit } from '../../../lab/chaos/measurement.js';
import type { Stream } from '../../../lab/chaos/request-streams.js';
import type { JournalLine } from '../../../src/model/journal.js';

/** Small pieces of evidence for the tests of what is measured from it. */

/** Turn 0 of b/0-0; tokens are sent one by one, 10 ms apart, the first on arrival. */
export function stream(change: Partial<Stream> = {}): Stream {
  const { arrived_at = 0, tokens_sent = 10 } = change;
  return {
    rollout_id: 'b/0-0',
    turn: 0,
    writer: 'a',
    prompt_tokens: 100,
    tokens_sent,
    fault: null,
    outcome: 'complete',
    whole: true,
    arrived_at,
    ended_at: arrived_at + tokens_sent * 10,
    sent: Array.from({ length: tokens_sent }, (_, i) => ({
      at: arrived_at + i * 10,
      tokens_sent: i + 1,
    })),
    ...change,
  };
}

export const hit = (at: number, lifted_at = at): Hit => ({ at, lifted_at });

export const claim = (writer: string): JournalLine => ({
  kind: 'claim',
  writer,
  at: 0,
  activity: 'playTurns',
  attempt: 1,
  reopen: false,
});

export const chunk = (writer: string, token_ids: number[]): JournalLine => ({
  kind: 'chunk',
  writer,
  at: 0,
  turn: 0,
  offset: 0,
  token_ids,
  logprobs: token_ids.map(() => -1),
  text: '',
  replica: 'r',
  request_id: `b/0-0.0.${writer}`,
  policy_version: null,
});

export const generation = (writer: string, token_count: number): JournalLine => ({
  kind: 'generation',
  writer,
  at: 0,
  turn: 0,
  finish_reason: 'stop',
  stop_reason: null,
  content: '',
  token_count,
  queue_s: 0,
  generate_s: 0,
});

export const end = (writer: string, at: number): JournalLine => ({
  kind: 'end',
  writer,
  at,
  stop_reason: 'max_turns',
  totals: { turn_count: 1, total_reward: 0, total_tokens: 1 },
  failure: null,
});
