import type { Program } from '../../environments/environment.js';
import { withDeadline } from '../../platform/waits/abort.js';

/** Ending what has ended already is only tidy. */
const TIDY_MS = 5000;
/** Best effort: a service forgets what nobody asks about. */
export async function stopped(
  program: Pick<Program, 'stop'>,
  { run, signal }: { run: string; signal: AbortSignal },
): Promise<void> {
  await withDeadline(signal, {
    ms: TIDY_MS,
    run: (bounded) => program.stop(run, bounded),
  }).catch(() => undefined);
}
