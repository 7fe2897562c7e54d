import type { LineOf } from '../../model/journal.js';
import type { JournalCall } from '../../model/journal/calls.js';
import { isKnown } from '../../model/journal/calls.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import type { Handed } from '../deliver/delivery.js';
import type { HashedRequest } from '../request/meaning.js';
import { createNews } from '../news.js';
import type { Reading } from '../deliver/pieces.js';
import { NOTHING } from '../deliver/pieces.js';
import type { Refusal } from '../request/refusals.js';
import type { Telling } from '../deliver/telling.js';

export type KnownCalls = ReturnType<typeof knownCalls>;

/** What a life knows of calls, begun by earlier attempts and lives. Changed by match/connections.ts alone. */
export function knownCalls(
  { life, restart }: LineOf<'life'>,
  trajectory: Pick<Trajectory, 'calls'>,
) {
  const calls = new Map<number, PlayedCall>();
  for (const [turn, call] of trajectory.calls.entries()) {
    const is_known = isKnown(call, life);
    const is_delivered = call.given.get(life) === true;
    if (is_known || restart === 'replay')
      calls.set(turn, newCall({ key: call.line.key, request: null, turn, is_known, is_delivered }));
  }
  return {
    /** By numbers of this process, as they began: those that the life knows and, where it replays, earlier lives'. */
    calls,
    named: new Map<string, { key: string; call: number }>(),
    asked: 0,
    /** Some connection has ended, or its answer has arrived. */
    closes: createNews(),
  };
}

export type PlayedCall = ReturnType<typeof newCall>;

interface NewCall {
  readonly key: string;
  /** null: an earlier attempt or life has begun it. */
  request: HashedRequest | null;
  release?: () => void;
  /** In the journal; null: it has no line yet. */
  turn: number | null;
  /** The life began it, or was given it. */
  is_known: boolean;
  /** Some connection of this life has it whole. */
  is_delivered: boolean;
}

/** A call as this process answers it, from its request on; its line in the journal comes a little later. */
export const newCall = ({ release = () => undefined, ...given }: NewCall) => ({
  ...given,
  release,
  news: createNews(),

  // Who waits for the answer, and who has received it: only match/connections.ts changes these.

  connections: 0,
  /** Cuts it when nobody has waited for some time. */
  lingers: undefined as NodeJS.Timeout | undefined,
  /** Connections that were handed the whole answer, and of which nothing is known yet. */
  handed: new Set<Handed>(),
  /** For each connection that the client closed before the end: how many tokens were said. */
  closed_at: [] as number[],

  // How far it is: changed by run-call.ts and play-call.ts alone.

  /** Ends what is in progress; null: nothing is. */
  running: null as AbortController | null,
  /** How often this process has begun to sample it. */
  tries: 0,
  telling: null as Telling | null,
  /** Since when no token has come (`performance.now`), and why no replica serves; null: one does. */
  moved_ms: performance.now(),
  unserved: null as string | null,
  /** Why it has ended without an answer; null once it is asked again. */
  refusal: null as Refusal | null,
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
