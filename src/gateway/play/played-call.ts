import type { LineOf } from '../../model/journal.js';
import type { JournalCall } from '../../model/journal/calls.js';
import { isKnown } from '../../model/journal/calls.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import type { Handed } from '../deliver/delivery.js';
import type { HashedRequest } from '../request/meaning.js';
import type { News } from '../news.js';
import { createNews } from '../news.js';
import type { Reading } from '../deliver/pieces.js';
import { NOTHING } from '../deliver/pieces.js';
import type { Refusal } from '../request/refusals.js';
import type { Telling } from '../deliver/telling.js';

/** What a life knows of calls. Changed by match/connections.ts alone. */
export interface KnownCalls {
  /**
   * In the order in which they began, by numbers of this process: those that the life knows and, where it replays, those
   * of earlier lives.
   */
  calls: Map<number, PlayedCall>;
  named: Map<string, { key: string; call: number }>;
  asked: number;
  /** Some connection has ended, or its answer has arrived. */
  closes: News;
}

/** Begun by earlier attempts and lives. */
export function knownCalls(
  { life, restart }: LineOf<'life'>,
  trajectory: Pick<Trajectory, 'calls'>,
): KnownCalls {
  const calls = new Map<number, PlayedCall>();
  for (const [turn, call] of trajectory.calls.entries()) {
    const is_known = isKnown(call, life);
    const is_delivered = call.given.get(life) === true;
    if (is_known || restart === 'replay')
      calls.set(turn, newCall({ key: call.line.key, request: null, turn, is_known, is_delivered }));
  }
  return { calls, named: new Map(), asked: 0, closes: createNews() };
}

/** A call as this process answers it, from its request on; its line in the journal comes a little later. */
export interface PlayedCall {
  readonly key: string;
  news: News;

  // Who waits for it, and who has it: changed by match/connections.ts alone.

  /** The life began it, or was given it. */
  is_known: boolean;
  connections: number;
  /** Cuts it when nobody has waited for some time. */
  lingers: NodeJS.Timeout | undefined;
  /** Connections that were handed the whole answer, and of which nothing is known yet. */
  handed: Set<Handed>;
  /** Some connection of this life has it whole. */
  is_delivered: boolean;
  /** For each connection that the client closed before the end: how many tokens were said. */
  closed_at: number[];

  // How far it is: changed by run-call.ts and play-call.ts alone.

  /** null: an earlier attempt or life has begun it. */
  request: HashedRequest | null;
  release: () => void;
  /** In the journal; null: it has no line yet. */
  turn: number | null;
  /** Ends what is in progress; null: nothing is. */
  running: AbortController | null;
  /** How often this process has begun to sample it. */
  tries: number;
  telling: Telling | null;
  /** Since when no token has come (`performance.now`), and why no replica serves; null: one does. */
  moved_ms: number;
  unserved: string | null;
  /** Ends without an answer, until somebody asks again. */
  refusal: Refusal | null;
}

export const newCall = (
  given: Pick<PlayedCall, 'key' | 'request' | 'turn' | 'is_known' | 'is_delivered'> &
    Partial<Pick<PlayedCall, 'release'>>,
): PlayedCall => ({
  telling: null,
  connections: 0,
  handed: new Set(),
  closed_at: [],
  refusal: null,
  running: null,
  tries: 0,
  lingers: undefined,
  moved_ms: performance.now(),
  unserved: null,
  news: createNews(),
  release: () => undefined,
  ...given,
});

export const journalled = (
  { turn }: PlayedCall,
  { calls }: Pick<Trajectory, 'calls'>,
): JournalCall | null => (turn === null ? null : (calls[turn] ?? null));

export function readingOf(call: PlayedCall, trajectory: Pick<Trajectory, 'calls'>): Reading {
  const answer = journalled(call, trajectory)?.answer ?? null;
  if (answer === null) return call.telling?.reading() ?? NOTHING;
  const { content, reasoning = '', tool_calls: calls, calls_at } = answer;
  return { content, reasoning, calls, ended: true, ...(calls_at && { calls_at }) };
}
