import type { Trajectory } from '../../../src/model/journal/trajectory.js';
import type { Stream } from '../request-streams.js';
import { openBetween, sentAfter } from '../request-streams.js';
import type { Struck } from './kills.js';

/** What the engine sampled and no journal has, for each call of each rollout. */

export interface Pace {
  tokens_per_second: number;
  /** Until the server notices that a worker is away. */
  heartbeat_timeout_s: number;
  /** The longest duration of a journal's commit. */
  commit_s: number;
}

export interface Beyond {
  /** Tokens of the journals, and what the engine sent beyond them: in all, and for the call with most. */
  tokens: number;
  beyond: number;
  beyond_most: number;
  /** What the kills may have cost, all calls together. */
  beyond_limit: number;
  /** Calls whose streams were open at a kill, all kills together. */
  hit: number;
  /** Calls with more than the kills that hit them may have cost. */
  over: string[];
}

interface Given {
  streams: readonly Stream[];
  struck: readonly Struck[];
  pace: Pace;
}

interface Asked {
  name: string;
  journalled: number;
  streams: Stream[];
}

export function beyondJournals(
  folded: ReadonlyMap<string, Trajectory>,
  { streams, struck, pace }: Given,
): Beyond {
  const result: Beyond = {
    tokens: 0,
    beyond: 0,
    beyond_most: 0,
    beyond_limit: 0,
    hit: 0,
    over: [],
  };
  for (const { name, journalled, streams: own } of askedFor(folded, streams)) {
    const sent = own.reduce((sum, { tokens_sent }) => sum + tokens_sent, 0);
    const limits = struck.flatMap((one) => limitOf(own, { struck: one, pace }) ?? []);
    const limit = limits.reduce((sum, one) => sum + one, 0);
    // The log of an engine that was killed may lack its last tokens: that makes up for nothing elsewhere.
    const beyond = Math.max(0, sent - journalled);
    result.tokens += journalled;
    result.beyond += beyond;
    result.beyond_most = Math.max(result.beyond_most, beyond);
    result.beyond_limit += limit;
    result.hit += limits.length;
    if (beyond > limit)
      result.over.push(
        `${name}: expected at most ${limit} tokens beyond its journal (${limits.length} kills), got ${beyond} of ${own.length} requests`,
      );
  }
  return result;
}

function askedFor(
  folded: ReadonlyMap<string, Trajectory>,
  streams: readonly Stream[],
): Iterable<Asked> {
  const calls = new Map<string, Asked>();
  for (const [id, trajectory] of folded)
    for (const [turn, { sampled }] of trajectory.calls.entries()) {
      const { token_ids } = sampled;
      const name = `${id} call ${turn}`;
      calls.set(name, { name, journalled: token_ids.length, streams: [] });
    }
  for (const stream of streams) {
    const name = `${stream.rollout_id} call ${stream.turn}`;
    const asked = calls.get(name) ?? { name, journalled: 0, streams: [] };
    calls.set(name, asked);
    asked.streams.push(stream);
  }
  return calls.values();
}

/** A streamed token is in the journal when 64 wait, or 250 ms after it came. */
const MOST_TOKENS = 64;
const MOST_S = 0.25;

/** What one kill may have cost a call; null: it was not open. */
function limitOf(
  streams: readonly Stream[],
  { struck: { victim, at, back_at }, pace }: { struck: Struck; pace: Pace },
): number | null {
  const { tokens_per_second, heartbeat_timeout_s, commit_s } = pace;
  // Without its server a worker loses its activities some time later, and with them the streams of then.
  const to = victim === 'server' ? back_at + 2000 * heartbeat_timeout_s : at;
  const window_ms = 1000 * (MOST_S + commit_s);
  const open = openBetween(streams, { from: at - window_ms, to });
  if (open.length === 0) return null;
  const most = MOST_TOKENS + Math.ceil(commit_s * tokens_per_second);
  const lost = Math.max(...open.map((stream) => mostWithin(stream, { from: at, to, window_ms })));
  // The engine goes on until it sees that nobody listens.
  const late =
    victim === 'gateway' ? open.reduce((sum, stream) => sum + sentAfter(stream, at), 0) : 0;
  return Math.min(most, lost) + late;
}

/** Most tokens that the engine sent in any window whose end is between two moments: it sends several at once. */
function mostWithin(
  stream: Stream,
  { from, to, window_ms }: { from: number; to: number; window_ms: number },
): number {
  const ends = [from, to, ...stream.sent.map(({ at }) => at).filter((at) => from < at && at < to)];
  return Math.max(
    ...ends.map((end) => sentAfter(stream, end - window_ms) - sentAfter(stream, end)),
  );
}
