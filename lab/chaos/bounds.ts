/**
 * What each fault may cost. Lost rollouts, duplicated rows and finished turns generated twice: none, under any fault.
 * The limit of tokens sampled twice depends on what the fault interrupts.
 */

/** What a fault interrupts, and so what may be sampled again. */
export type Interrupts =
  /** No stream that has sent a token. */
  | 'nothing'
  /** The requests that it hit. */
  | 'hit_requests'
  /** Every stream that is open at the strike; the engine continues until it notices. */
  | 'open_streams'
  /** Every stream that is open at some time while it lasts. */
  | 'streams_while_held'
  /** Every stream that is open when it strikes, until the server and then the worker have noticed. */
  | 'stopped_worker';

/** A streamed token is in the journal when 64 wait, or 250 ms after it arrived. */
const UNJOURNALLED_TOKENS = 64;
export const UNJOURNALLED_S = 0.25;
/** The longest wait between two attempts of an activity. */
const RETRY_S = 15;

export interface Interrupted {
  streams: number;
  /** Sent on these streams after the client had gone, until the engine noticed. */
  tokens_after_disconnect: number;
}

export interface Pace {
  tokens_per_second: number;
  heartbeat_timeout_s: number;
  /** The longest duration of a journal's commit, besides the wait for it. */
  commit_s: number;
}

/** The largest permitted number of tokens that were sampled twice. */
export function tokenLimit(
  interrupts: Interrupts,
  { interrupted, pace }: { interrupted: Interrupted; pace: Pace },
): number {
  const { tokens_per_second, heartbeat_timeout_s, commit_s } = pace;
  const { streams, tokens_after_disconnect } = interrupted;
  const unjournalled = Math.min(UNJOURNALLED_TOKENS, UNJOURNALLED_S * tokens_per_second);
  const each = Math.ceil(unjournalled + commit_s * tokens_per_second);
  switch (interrupts) {
    case 'nothing':
      return 0;
    case 'hit_requests':
    case 'streams_while_held':
      return streams * each;
    case 'open_streams':
      return streams * each + tokens_after_disconnect;
    case 'stopped_worker':
      return streams * Math.ceil((heartbeat_timeout_s + RETRY_S) * tokens_per_second);
  }
}
