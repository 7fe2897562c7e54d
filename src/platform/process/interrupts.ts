import { writeSync } from 'node:fs';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

export type Interrupts = ReturnType<typeof listenForInterrupts>;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const PARENT_CHECK_MS = 1000;

/** The exit code of a program that a user left: a shell says the same of one that Ctrl-C has killed. */
export const INTERRUPTED = 130;

/** The kernel ends the first process of a container by no signal for which nobody listens. */
const IS_FIRST = process.pid === 1;

/**
 * From now on Ctrl-C ends the process with exit code 130 and a word, unless something else listens for it: also before a
 * command listens, and after it has ended its work. In the first process of a container other signals do so, too.
 */
export function leaveOnInterrupt(): void {
  for (const name of IS_FIRST ? SIGNALS : (['SIGINT'] as const)) process.on(name, leave);
}

/** For commands that run code of others, which may keep this process busy: the kernel then ends it at once. */
export function dieOfInterrupt(): void {
  if (!IS_FIRST) process.off('SIGINT', leave);
}

function leave(name: NodeJS.Signals): void {
  if (process.listenerCount(name) > 1) return;
  try {
    // Not `console`: it may be slower than the exit.
    writeSync(2, 'interrupted\n');
  } catch {
    // Standard error is closed.
  }
  process.exit(128 + constants.signals[name]);
}

/** Listens for Ctrl-C and similar signals; `again` is called for the second one. */
export function listenForInterrupts(env: NodeJS.ProcessEnv, again: () => void) {
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) again();
    else controller.abort(name);
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  const parent = process.ppid;
  // npm ends the shell between itself and this process without passing on a signal, so this is the only trace of a
  // SIGTERM to `npm start`.
  const watch =
    env['npm_lifecycle_event'] === undefined
      ? undefined
      : setInterval(() => {
          if (process.ppid !== parent && !controller.signal.aborted) controller.abort('SIGTERM');
        }, PARENT_CHECK_MS).unref();
  return {
    /** Aborted by the first Ctrl-C (reason: the signal's name) or by `abort` (reason: its error). */
    signal: controller.signal,
    abort: (reason: Error): void => {
      controller.abort(reason);
    },
    /** Listens no longer. */
    forget: (): void => {
      clearInterval(watch);
      for (const name of SIGNALS) process.off(name, onSignal);
    },
  };
}

/** Resolves when the signal aborts; keeps the process alive until then. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await sleep(60_000, undefined, { signal }).catch(() => undefined);
}
