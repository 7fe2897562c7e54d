import { hostname } from 'node:os';
import { namedIn, runIn } from '../../temporal/pollers.js';
import { areNeighbours, identify, runOf } from '../../platform/process/identity.js';

/**
 * Whether a worker's process has certainly ended: only one of this machine and container can be seen from here. Numbers
 * of processes are used again, so it is looked for by its run. One whose run nobody knows has only its number.
 */
export async function hasEnded(identity: string): Promise<boolean> {
  const [number = '', host] = namedIn(identity).worker.split('@');
  const pid = Number(number);
  if (host !== hostname()) return false;
  const run = runIn(identity);
  if (run === null) return pid === process.pid || isUnused(pid);
  const own = await runOf(await identify(process.pid));
  if (own === null || !areNeighbours(run, own)) return false;
  const there = await identify(pid);
  // Another user's processes may be hidden.
  if (there.started === null) return isUnused(pid);
  return there.command === '' || (await runOf(there)) !== run;
}

function isUnused(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}
