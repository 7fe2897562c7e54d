import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/**
 * Resolves with the process once it runs. Rejects if it cannot be started; do not touch its streams before, they may be
 * missing.
 */
export async function spawned<Child extends ChildProcess>(child: Child): Promise<Child> {
  await once(child, 'spawn');
  // Later errors (a signal that cannot be sent) show in how it ends.
  child.on('error', () => undefined);
  return child;
}
