/** How long a process takes to end in order; longer than that, it is ended. */
const ENDS_WITHIN_MS = 10_000;

/**
 * For the parts of a deployment, which run until they are told to end: SIGINT, SIGTERM, or the end of their lifeline,
 * whichever comes first, aborts what is returned. Whatever the process waits for or a library still holds, 10 s later
 * it exits with code 1. A second signal of the same kind ends it at once.
 *
 * The child's end of the lifeline: a process that was started with `ROLLOUT_LIFELINE=1` ends when its stdin ends, which
 * the kernel brings about however its parent dies.
 */
export function untilToldToEnd(env: NodeJS.ProcessEnv): AbortSignal {
  const told = new AbortController();
  const end = (): void => {
    if (told.signal.aborted) return;
    setTimeout(() => process.exit(1), ENDS_WITHIN_MS).unref();
    told.abort();
  };
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  if (env['ROLLOUT_LIFELINE'] === '1') followLifeline(end);
  return told.signal;
}

function followLifeline(end: () => void): void {
  const { stdin } = process;
  stdin.once('end', end);
  stdin.once('close', end);
  stdin.once('error', end);
  stdin.resume();
  // The lifeline alone keeps nothing alive: a process with nothing left to do ends.
  if ('unref' in stdin && typeof stdin.unref === 'function') stdin.unref();
}
