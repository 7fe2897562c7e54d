/**
 * Which call a request is, by delivery and not by guesses: an agent cannot have used an answer that it did not receive
 * whole, and one that it received whole is never asked for again by accident. Within one worker and one life.
 */

/** A call as its life sees it. */
export interface Candidate {
  call: number;
  key: string;
  /** The life began it, or was given it. */
  is_known: boolean;
  /** Some connection of the life got it whole. */
  is_delivered: boolean;
  /** Connections that wait for it. */
  connections: number;
  /** For each connection that the client closed before the end: how many tokens were said. */
  closed_at: readonly number[];
}

export interface Asking {
  key: string;
  /** The header `Idempotency-Key`; null: none. */
  idempotency_key: string | null;
}

/** `attach`: it is that call. `new`: another one. `mismatch`: its idempotency key belongs to another request (422). */
export type Match = { attach: number } | 'new' | 'mismatch';

export function matchCall(
  { key, idempotency_key }: Asking,
  {
    calls,
    named,
  }: {
    /** In order of their numbers. */
    calls: readonly Candidate[];
    /** Idempotency keys of this life. */
    named: ReadonlyMap<string, { key: string; call: number }>;
  },
): Match {
  const before = idempotency_key === null ? undefined : named.get(idempotency_key);
  if (before !== undefined) return before.key === key ? { attach: before.call } : 'mismatch';
  const asked = calls.find(
    (one) =>
      one.key === key &&
      one.is_known &&
      !one.is_delivered &&
      one.connections === 0 &&
      !isUnwanted(one),
  );
  return asked === undefined ? 'new' : { attach: asked.call };
}

const CLOSES = 3;

/** The client has closed its last three connections, each no later in the answer than the one before. */
function isUnwanted({ closed_at }: Candidate): boolean {
  const last = closed_at.slice(-CLOSES);
  return last.length === CLOSES && last.every((at, k) => k === 0 || at <= (last[k - 1] ?? 0));
}

/** What is known of a connection to which the last byte of an answer was handed. */
export interface Handed {
  /** `reset`: ECONNRESET or EPIPE. */
  connection: 'open' | 'closed' | 'reset';
  /** Another request has come on it since. */
  asked_again: boolean;
  /** A call continues this one. */
  continued: boolean;
  /** How long it has stayed open since. */
  open_s: number;
}

export const STAYS_OPEN_S = 5;

/** Whether the answer has arrived whole. That it was handed over alone says nothing. */
export const isDelivered = ({ connection, asked_again, continued, open_s }: Handed): boolean =>
  continued ||
  asked_again ||
  connection === 'closed' ||
  (connection === 'open' && open_s >= STAYS_OPEN_S);
