/** A hundred beats a second for each batch at most, as long as they come three times in a timeout. */
const LEAST_MS_EACH = 30;
/** A task that is lost without a death, such as one whose answer a connection lost, runs again after this time. */
const MOST_MS = 600_000;

/** A beat costs the server 2 ms, and tells little: workers' reports show deaths, and a foreign line a lost journal. */
export const heartbeatFor = (
  {
    heartbeat_timeout_ms,
    heartbeat_grows,
  }: { heartbeat_timeout_ms: number; heartbeat_grows: boolean },
  in_flight: number,
): number =>
  heartbeat_grows
    ? Math.max(heartbeat_timeout_ms, Math.min(MOST_MS, in_flight * LEAST_MS_EACH))
    : heartbeat_timeout_ms;

/** A rollout that has little time must not lose it all to one lost task. */
const PART_OF_TIME_LEFT = 10;
/** Ten times as many beats is the most: very many short rollouts would be too many for the server. */
const MOST_BEATS = 10;
/** Shorter, and a busy machine looks like a lost task. */
const LEAST_MS = 5000;

/** The same for an activity that has so much time left. */
export const heartbeatWithin = (heartbeat_timeout_ms: number, left_ms: number): number =>
  Math.min(
    heartbeat_timeout_ms,
    Math.max(left_ms / PART_OF_TIME_LEFT, heartbeat_timeout_ms / MOST_BEATS, LEAST_MS),
  );
