import { INTERRUPTED, listenForInterrupts } from '../../src/platform/process/interrupts.js';
import { followLifeline } from '../../src/platform/process/lifeline.js';
import type { Screen } from '../../src/client/screen.js';
import { createScreen } from '../../src/client/screen.js';

/** What interruptible work gets. */
export interface Interruptible {
  screen: Screen;
  /** Aborted by Ctrl-C and by `giveUp`; the work then ends in order. */
  signal: AbortSignal;
  /** Ends the work, which fails with the reason. */
  giveUp: (reason: Error) => void;
}

/**
 * Runs the work; returns its exit code, or 130 if it was interrupted before. A second Ctrl-C ends the process at once.
 * A program that started it with a lifeline (Python's `durable_rollouts.gym`) ends it by its own end.
 */
export async function runInterruptibly(
  work: (context: Interruptible) => Promise<number>,
): Promise<number> {
  const screen = createScreen(process.stdout, process.env);
  const { signal, abort, forget } = listenForInterrupts(process.env, () => {
    screen.close();
    // Child processes end with this process.
    process.exit(INTERRUPTED);
  });
  followLifeline(process.env, () => {
    abort(new Error('the program that started this command has ended'));
  });
  try {
    const exit_code = await work({ screen, signal, giveUp: abort });
    if (signal.reason instanceof Error) throw signal.reason;
    return exit_code;
  } catch (error) {
    if (!signal.aborted || signal.reason instanceof Error) throw error;
    console.error('interrupted');
    return INTERRUPTED;
  } finally {
    screen.close();
    forget();
  }
}
