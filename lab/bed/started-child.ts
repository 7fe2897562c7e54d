import type { Child, Exit } from '../../dev/child.js';
import { describeExit, logTail } from '../../dev/child.js';
import { eventually } from './waiting.js';

const LAST_LINES = 12;

export interface Started<T> {
  /** What it has shown. */
  shown: T;
  /** null: it runs. */
  ended: () => Exit | null;
}

/**
 * Waits for what a process shows when it has started. If it ends or takes too long, that is an error with the end of
 * its log, and nothing of it is left.
 */
export async function untilStarted<T>(
  child: Child,
  { what, logFile, look }: { what: string; logFile: string; look: () => Promise<T> },
): Promise<Started<Exclude<T, null | undefined | false>>> {
  const state: { exit: Exit | null } = { exit: null };
  void child.exited.then((exit) => {
    state.exit = exit;
  });
  try {
    const shown = await eventually(`${what} to start`, () => {
      if (state.exit !== null) throw new Error(`${what} ended ${describeExit(state.exit)}`);
      return look();
    });
    return { shown, ended: () => state.exit };
  } catch (error) {
    await child.stop();
    throw new Error(`${String(error)}\n${await logTail(logFile, LAST_LINES)}`, { cause: error });
  }
}
