import type { Program } from '../../environments/environment.js';
import { orAborted, withDeadline } from '../../platform/waits/abort.js';

/** Ending what has ended already is only tidy. */
const TIDY_MS = 5000;
/** Best effort: a service forgets what nobody asks about. What runs here is ended, whatever else has ended. */
export async function stopped(
  program: Pick<Program, 'outlives' | 'stop'>,
  { run, signal }: { run: string; signal: AbortSignal },
): Promise<void> {
  await withDeadline(program.outlives ? signal : new AbortController().signal, {
    ms: TIDY_MS,
    run: (bounded) => orAborted(program.stop(run, bounded), bounded),
  }).catch(() => undefined);
}
