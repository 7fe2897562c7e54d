/** How long a process may take for an orderly end before it is killed. */
const ENDS_WITHIN_MS = 10_000;

/**
 * For the parts of a deployment. SIGINT, SIGTERM or the end of the lifeline aborts the returned signal, whichever comes
 * first. After 10 s the process exits with code 1, whatever still runs. A second signal of the same kind ends it at
 * once.
 *
 * The lifeline is stdin: a process started with `ROLLOUT_LIFELINE=1` ends when its stdin ends. The kernel closes it
 * however the parent dies.
 */
export function untilShutdown(env: NodeJS.ProcessEnv): AbortSignal {
  const told = new AbortController();
  const end = (): void => {
    if (told.signal.aborted) return;
    setTimeout(() => process.exit(1), ENDS_WITHIN_MS).unref();
    told.abort();
  };
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  followLifeline(env, end);
  return told.signal;
}

/** Calls `end`, up to three times, when the process that started this one with a lifeline has ended. */
export function followLifeline(env: NodeJS.ProcessEnv, end: () => void): void {
  if (env['ROLLOUT_LIFELINE'] !== '1') return;
  const { stdin } = process;
  stdin.once('end', end);
  stdin.once('close', end);
  stdin.once('error', end);
  stdin.resume();
  // The lifeline alone does not keep a process alive that has nothing left to do.
  if ('unref' in stdin && typeof stdin.unref === 'function') stdin.unref();
}
