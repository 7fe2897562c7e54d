import type { JournalLine } from '../../src/model/journal.js';
import { askedAgain } from '../bed/asked-again.js';
import type { Interrupted, Interrupts } from './bounds.js';
import { UNJOURNALLED_S } from './bounds.js';
import type { Stream } from './request-streams.js';
import { openBetween, sentAfter } from './request-streams.js';

/** A fault that struck, in milliseconds since the epoch. */
export interface Hit {
  at: number;
  lifted_at: number;
}

/** The fields of a line of rollouts.jsonl or failures.jsonl that are used here. */
export interface RowPlace {
  row: number;
  repeat: number;
}

/** The result of a run. */
export interface Evidence {
  requested: number;
  rollouts: readonly RowPlace[];
  failures: readonly RowPlace[];
  /** By rollout id; all lines that parse, of every writer. */
  journals: ReadonlyMap<string, readonly JournalLine[]>;
  streams: readonly Stream[];
  hits: readonly Hit[];
  interrupts: Interrupts;
}

export interface Measurement {
  /** Requested, and not among the valid rows. */
  rollouts_lost: number;
  /** In both files together. */
  rows_duplicated: number;
  /** Requests for a turn whose generation was in the journal when the requesting attempt claimed it. */
  turns_generated_twice: number;
  /** Tokens that were sent for a position in a turn for which one had been sent before. */
  tokens_sampled_twice: number;
  /** From the fault until the last of the interrupted rollouts had a token again, or had ended; null: none was. */
  recovery_s: number | null;
}

export function measure(evidence: Evidence): Measurement {
  const { requested, rollouts, failures, streams, journals } = evidence;
  return {
    rollouts_lost: requested - placesIn(rollouts).size,
    rows_duplicated: rollouts.length + failures.length - placesIn([...rollouts, ...failures]).size,
    turns_generated_twice: askedAgain(streams, journals).length,
    tokens_sampled_twice: tokensSampledTwice(streams),
    recovery_s: recoverySeconds(evidence),
  };
}

const placesIn = (rows: readonly RowPlace[]): Set<string> =>
  new Set(rows.map(({ row, repeat }) => `${row}-${repeat}`));

/** What the faults interrupted: the streams that may have to be sampled again, according to the bound. */
export function interruptedBy(evidence: Evidence): Interrupted {
  const { interrupts, hits } = evidence;
  const cut = interruptions(evidence);
  const late = (stream: Stream, from: number): number =>
    interrupts === 'open_streams' ? sentAfter(stream, from) : 0;
  return {
    streams: hits.length === 0 ? 0 : cut.length,
    tokens_after_disconnect: cut.reduce((sum, { stream, from }) => sum + late(stream, from), 0),
  };
}

interface Interruption {
  stream: Stream;
  /** When its tokens ended, or may have ended. */
  from: number;
}

function interruptions({ streams, hits, interrupts }: Evidence): Interruption[] {
  switch (interrupts) {
    case 'nothing':
    case 'hit_requests':
      return streams
        .filter(({ fault }) => fault !== null)
        .map((stream) => ({ stream, from: stream.sent.at(-1)?.at ?? stream.arrived_at }));
    case 'open_streams':
    case 'stopped_worker':
      return hits.flatMap(({ at }) =>
        // The last tokens of a stream that has just ended may still be on their way to the journal.
        openBetween(streams, { from: at - 1000 * UNJOURNALLED_S, to: at }).map((stream) => ({
          stream,
          from: at,
        })),
      );
    case 'streams_while_held':
      return hits.flatMap(({ at, lifted_at }) =>
        openBetween(streams, { from: at, to: lifted_at }).map((stream) => ({
          stream,
          from: Math.max(at, stream.arrived_at),
        })),
      );
  }
}

/**
 * A request's tokens follow those that its prompt inherits: the prompt's length minus the shortest prompt of the same
 * turn, which is that of the turn's first request.
 */
export function tokensSampledTwice(streams: readonly Stream[]): number {
  const turns = byTurn(streams.filter(({ prompt_tokens }) => prompt_tokens !== null));
  return [...turns.values()].reduce((sum, requests) => {
    const base = Math.min(...requests.map(({ prompt_tokens }) => prompt_tokens ?? Infinity));
    const spans = requests.map(({ prompt_tokens, tokens_sent }) => {
      const from = (prompt_tokens ?? base) - base;
      return { from, to: from + tokens_sent };
    });
    const sent = requests.reduce((total, { tokens_sent }) => total + tokens_sent, 0);
    return sum + sent - coveredPlaces(spans);
  }, 0);
}

function byTurn(streams: readonly Stream[]): Map<string, Stream[]> {
  const turns = new Map<string, Stream[]>();
  for (const stream of streams) {
    const key = `${stream.rollout_id}.${stream.turn}`;
    turns.set(key, [...(turns.get(key) ?? []), stream]);
  }
  return turns;
}

function coveredPlaces(spans: readonly { from: number; to: number }[]): number {
  let covered = 0;
  let end = 0;
  for (const { from, to } of spans.toSorted((a, b) => a.from - b.from)) {
    covered += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return covered;
}

function recoverySeconds(evidence: Evidence): number | null {
  const { streams, journals } = evidence;
  const times = interruptions(evidence)
    .filter(({ stream }) => wasInterrupted(stream, evidence))
    .map(({ stream: { rollout_id }, from }) => {
      const next = streams.find(
        (stream) =>
          stream.rollout_id === rollout_id && stream.arrived_at > from && hasTokens(stream),
      );
      const end = journals
        .get(rollout_id)
        ?.find(({ kind, at }) => kind === 'end' && at * 1000 > from);
      return (
        Math.min(next?.sent[0]?.at ?? Infinity, end === undefined ? Infinity : end.at * 1000) - from
      );
    });
  return times.length === 0 ? null : Math.round(Math.max(...times)) / 1000;
}

const hasTokens = ({ sent }: Stream): boolean => sent.length > 0;

/** A request that was hit but completed does not count. A request of a process that was killed waits in any case. */
function wasInterrupted(hit: Stream, { streams, interrupts }: Evidence): boolean {
  if (interrupts !== 'nothing' && interrupts !== 'hit_requests') return true;
  return (
    !hit.whole ||
    streams.some(
      ({ rollout_id, turn, arrived_at }) =>
        rollout_id === hit.rollout_id && turn === hit.turn && arrived_at > hit.arrived_at,
    )
  );
}
