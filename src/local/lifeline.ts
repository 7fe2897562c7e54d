/**
 * The child's end of the lifeline: a process that was started with `ROLLOUT_LIFELINE=1` ends when its stdin ends,
 * which the kernel brings about however its parent dies. Without the variable it does nothing.
 * `end` is called once; when the process still runs 8 s later it exits by itself.
 */
export function followLifeline(env: NodeJS.ProcessEnv, end: () => void): void {
  if (env['ROLLOUT_LIFELINE'] !== '1') return;
  const { stdin } = process;
  let ended = false;
  const onEnd = (): void => {
    if (ended) return;
    ended = true;
    setTimeout(() => process.exit(1), 8000).unref();
    end();
  };
  stdin.once('end', onEnd);
  stdin.once('close', onEnd);
  stdin.once('error', onEnd);
  stdin.resume();
  // The lifeline alone keeps nothing alive: a process with nothing left to do ends.
  if ('unref' in stdin && typeof stdin.unref === 'function') stdin.unref();
}
