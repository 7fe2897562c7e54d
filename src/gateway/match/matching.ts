/**
 * Which call a request is, by delivery and not by guesses: an agent cannot have used an answer that it did not receive
 * whole, and one that it received whole is never asked for again by accident. Over all calls of a rollout, with what one
 * life knows of them. Nothing here waits: who asks does.
 */

export interface Candidate {
  call: number;
  key: string;
  /** The life began it, or was given it. */
  is_known: boolean;
  /** Some connection of the life got it whole; of a call that it does not know: of an earlier life. */
  is_delivered: boolean;
  /** Some connection of the life was handed its last byte, and is open: nothing is known of it yet. */
  is_handed: boolean;
  is_continued: boolean;
  is_complete: boolean;
  /** Connections of the life that wait for it, or of which nothing is known yet. */
  connections: number;
  /** For each connection of the life that its client closed before the end: how many tokens were said. */
  closed_at: readonly number[];
}

export interface Asking {
  key: string;
  idempotency_key: string | null;
  /** Its client says that it has asked before. */
  is_retry: boolean;
  /** It has waited for the close of an earlier connection, as long as a request waits for that. */
  has_waited: boolean;
}

export interface Known {
  /** In order of their numbers. */
  calls: readonly Candidate[];
  named: ReadonlyMap<string, { key: string; call: number }>;
  /** The life is given what earlier ones asked. */
  replays: boolean;
}

/**
 * `attach`: it is that call. `new`: another one. `wait`: an earlier connection may be about to close, then it is asked
 * again which call it is. `mismatch`: its idempotency key belongs to another request (422).
 */
export type Match = { attach: number } | 'new' | 'wait' | 'mismatch';

export function matchCall(asking: Asking, { calls, named, replays }: Known): Match {
  const { key, idempotency_key, is_retry, has_waited } = asking;
  const before = idempotency_key === null ? undefined : named.get(idempotency_key);
  if (before !== undefined) return before.key === key ? { attach: before.call } : 'mismatch';
  const same = calls.filter((one) => one.key === key);
  const known = same.filter(({ is_known }) => is_known);
  const missed = known.find(
    (one) => !one.is_delivered && one.connections === 0 && !isUnwanted(one),
  );
  const found = missed ?? (replays ? replayed(same) : undefined);
  if (found !== undefined) return { attach: found.call };
  if (!is_retry) return 'new';
  // A client closes before it asks again, but both may come by other ways.
  if (!has_waited && known.some(({ connections }) => connections > 0)) return 'wait';
  // Also one that a connection, pooled by a proxy perhaps, has had for less than five seconds.
  const retried = known.findLast((one) => (one.is_delivered || one.is_handed) && !one.is_continued);
  return retried === undefined ? 'new' : { attach: retried.call };
}

/** What an earlier life made most of comes first: the program goes the same way again. */
const replayed = (same: readonly Candidate[]): Candidate | undefined =>
  same
    .filter(({ is_known }) => !is_known)
    .sort((a, b) => usesOf(b) - usesOf(a) || a.call - b.call)[0];

const usesOf = ({ is_continued, is_delivered, is_complete }: Candidate): number =>
  is_continued ? 3 : is_delivered ? 2 : is_complete ? 1 : 0;

const CLOSES = 3;

/** The client has closed its last three connections, each no later in the answer than the one before. */
function isUnwanted({ closed_at }: Candidate): boolean {
  const last = closed_at.slice(-CLOSES);
  return last.length === CLOSES && last.every((at, k) => k === 0 || at <= (last[k - 1] ?? 0));
}
