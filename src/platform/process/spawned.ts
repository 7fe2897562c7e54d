import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** The process once it runs. Rejects where it cannot be started: then it may lack its streams, which are not to be touched before. */
export async function spawned<Child extends ChildProcess>(child: Child): Promise<Child> {
  await once(child, 'spawn');
  // What else goes wrong (a signal that cannot be sent) shows in how it ends.
  child.on('error', () => undefined);
  return child;
}
