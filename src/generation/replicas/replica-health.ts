/**
 * Whether a replica gets requests, as a state machine. Times are milliseconds of one monotonic clock.
 *
 * Which events say something about the replica rather than about the request:
 * - `GenerationUnavailable` (refused, reset, cut, silent, 5xx) sets it aside: the next request would probably fail,
 *   too, and another replica can continue from the journalled tokens. A `retry-after` of a 429 or 503 sets the exact
 *   time.
 * - `GenerationRejected` and `ProtocolError` do not: the request is wrong, or the server is misconfigured. Moving to
 *   the next replica would only hide that. The exception is a denial of what planning saw (401, 403, 404).
 * - An abort by the caller and a fault of the store come from this side.
 * - A pause does not. Requests hang, and no time limit runs for them. If it cut off streams (`mode=abort`), that looks
 *   like a fault and is taken back.
 */
export interface Health {
  /** null: it gets requests. */
  aside: {
    until: number;
    /** From `retry-after`: no success counts before. */
    asked: boolean;
  } | null;
  /** When it was last set aside or came back. Results of earlier requests are ignored. */
  since: number;
  /**
   * Faults and failed probes since a generation last succeeded, not since a probe did. An engine that is dead behind a
   * living front end answers every probe, and is tried ever more rarely.
   */
  failures: number;
}

export type HealthEvent =
  | { kind: 'fault'; sent_at: number; retry_after_ms: number | null }
  | { kind: 'success'; sent_at: number }
  /** A question about its health was answered. A question without an answer counts only if it was a probe. */
  | { kind: 'answered' }
  | { kind: 'unanswered' }
  | { kind: 'paused' };

/** `random` in [0, 1). */
export type HealthNews = HealthEvent & { at: number; random: number };

export const HEALTHY: Health = { aside: null, since: -Infinity, failures: 0 };

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
/** The random share of a pause, so that the workers of a deployment do not probe in step. */
const JITTER = 0.25;

/** Returns the same object if nothing changes. */
export function nextHealth(health: Health, news: HealthNews): Health {
  switch (news.kind) {
    case 'fault':
      return afterFault(health, news);
    case 'success':
      if (news.sent_at < health.since || health.failures === 0) return health;
      return {
        aside: null,
        since: health.aside === null ? health.since : news.at,
        failures: 0,
      };
    case 'answered':
      return isAskedFor(health, news.at) ? health : back(health, news.at);
    case 'unanswered':
      return health.aside === null ? health : setAside(health, { ...news, retry_after_ms: null });
    case 'paused':
      if (health.aside === null || isAskedFor(health, news.at)) return health;
      return { ...back(health, news.at), failures: health.failures - 1 };
  }
}

/** If many requests fail together, the first one sets the replica aside. The others were sent before. */
function afterFault(health: Health, news: HealthNews & { kind: 'fault' }): Health {
  const { aside, since } = health;
  const { at, sent_at, retry_after_ms } = news;
  if (aside === null) return sent_at < since ? health : setAside(health, news);
  if (retry_after_ms === null || at + retry_after_ms <= aside.until) return health;
  return { ...health, aside: { until: at + retry_after_ms, asked: true } };
}

function setAside(
  { aside, since, failures }: Health,
  { at, random, retry_after_ms }: { at: number; random: number; retry_after_ms: number | null },
): Health {
  const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures) * (1 - JITTER * random);
  return {
    aside: { until: at + (retry_after_ms ?? pause), asked: retry_after_ms !== null },
    since: aside === null ? at : since,
    failures: failures + 1,
  };
}

const back = (health: Health, at: number): Health =>
  health.aside === null ? health : { ...health, aside: null, since: at };

const isAskedFor = ({ aside }: Health, at: number): boolean =>
  aside !== null && aside.asked && at < aside.until;
