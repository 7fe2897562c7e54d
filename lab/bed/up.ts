import type { Child, Exit } from '../../dev/child.js';
import { logTail } from '../../dev/child.js';
import { startLogged } from './command.js';
import { untilStarted } from './started-child.js';

/** `temporal-rollout up` without its batch, once it stays up. `ended` is null while it does. */
export async function startUp(
  args: readonly string[],
  { cwd, logFile }: { cwd: string; logFile: string },
): Promise<{ up: Child; ended: () => Exit | null }> {
  const up = await startLogged(['up', '--no-batch', ...args], { cwd, logFile, ends: 'kernel' });
  const { ended } = await untilStarted(up, {
    what: 'the stack',
    logFile,
    look: async () => (await logTail(logFile, 60)).includes('The stack stays up until Ctrl-C'),
  });
  return { up, ended };
}
