/** `setTimeout` fires at once above this. */
const MAX_TIMER_MS = 2_147_483_647;

interface WatchdogOptions {
  /** From sending the request to its first token. */
  first_token_timeout_ms: number;
  /** Between chunks, once tokens have begun. */
  idle_timeout_ms: number;
  /** While the engine says that it is paused, neither limit runs. Never throws. */
  isPaused: () => Promise<boolean>;
  /** Called at most once, with which limit passed. */
  expire: (what: string) => void;
}

export interface Watchdog {
  /** Called for each chunk from the first token on. */
  arrived: () => void;
  stop: () => void;
}

/**
 * Neither the `openai` package nor `undici` ends a stream that has gone quiet. A chunk costs one clock reading here:
 * the timer is not moved, it looks at the clock when it fires.
 */
export function startWatchdog(options: WatchdogOptions): Watchdog {
  let started = false;
  let since = performance.now();
  let state: 'waiting' | 'asking' | 'stopped' = 'waiting';
  let timer: NodeJS.Timeout | undefined;

  const limit = (): number => (started ? options.idle_timeout_ms : options.first_token_timeout_ms);
  const left = (): number => since + limit() - performance.now();
  const arm = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => void check(), Math.min(Math.max(left(), 1), MAX_TIMER_MS));
  };
  const stop = (): void => {
    state = 'stopped';
    clearTimeout(timer);
  };
  const isStopped = (): boolean => state === 'stopped';

  async function check(): Promise<void> {
    if (left() <= 0) {
      state = 'asking';
      const paused = await options.isPaused();
      if (isStopped()) return;
      state = 'waiting';
      if (paused) {
        since = performance.now();
      } else if (left() <= 0) {
        stop();
        options.expire(
          `${started ? 'idle timeout: no chunk' : 'first-token timeout: no token'} for ${limit() / 1000} s`,
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
