/** How often, within a limit, a quiet engine is asked whether it is paused, and the minimum. */
const LOOKS_PER_LIMIT = 8;
const LONGEST_LOOK_MS = 5000;

interface WatchdogOptions {
  /** From sending the request to its first token. */
  first_token_timeout_ms: number;
  /** Between tokens, once they have begun. */
  idle_timeout_ms: number;
  /** While the engine says that it is paused, neither limit runs. Never throws. */
  isPaused: () => Promise<boolean>;
  /** Called at most once, with the limit that passed. */
  expire: (what: string) => void;
}

export interface Watchdog {
  arrived: () => void;
  stop: () => void;
}

/**
 * `undici` does not end a stream that has gone quiet. Only tokens end a silence. Comments with
 * which proxies keep a connection open are legitimate for as long as the first token may take. Chunks without tokens
 * are no progress either, or an engine could hold a rollout forever. A chunk costs one clock reading: the timer is not
 * moved, but checks the clock when it fires. It fires several times within a limit, so that a pause that ends before
 * the limit is noticed.
 */
export function startWatchdog(options: WatchdogOptions): Watchdog {
  let started = false;
  let since = performance.now();
  let looked_at = since;
  let state: 'waiting' | 'asking' | 'stopped' = 'waiting';
  let timer: NodeJS.Timeout | undefined;

  const limit = (): number => (started ? options.idle_timeout_ms : options.first_token_timeout_ms);
  const left = (): number => since + limit() - performance.now();
  const arm = (): void => {
    clearTimeout(timer);
    const look = Math.min(limit() / LOOKS_PER_LIMIT, LONGEST_LOOK_MS, left());
    timer = setTimeout(() => void check(), Math.max(look, 1));
  };
  const stop = (): void => {
    state = 'stopped';
    clearTimeout(timer);
  };
  const isStopped = (): boolean => state === 'stopped';

  async function check(): Promise<void> {
    const isQuiet = since <= looked_at;
    looked_at = performance.now();
    if (isQuiet) {
      state = 'asking';
      const paused = await options.isPaused();
      if (isStopped()) return;
      state = 'waiting';
      looked_at = performance.now();
      if (paused) {
        since = looked_at;
      } else if (left() <= 0) {
        stop();
        options.expire(
          `${started ? 'idle timeout: no token' : 'first-token timeout: no token'} for ${limit() / 1000} s`,
        );
        return;
      }
    }
    arm();
  }

  arm();
  return {
    arrived: () => {
      since = performance.now();
      if (started) return;
      started = true;
      if (state === 'waiting') arm();
    },
    stop,
  };
}
