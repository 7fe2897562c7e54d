import { setTimeout as sleep } from 'node:timers/promises';
import { isRunning } from '../../bed/process-tree.js';
import type { AgentsBed } from './bed.js';
import type { Heard } from './heard.js';
import type { RealAgent } from './real.js';
import { processesOf } from './real.js';

/** What ends with its life has ended by then. */
const LEFT_MS = 60_000;

/** Processes of agents, their folders, and requests of the engine. Each may take a moment to end. */
export async function leftBy(
  { bed, folders, service }: AgentsBed,
  { heard, real }: { heard: readonly Heard[]; real: RealAgent | null },
): Promise<string[]> {
  const look = async (): Promise<string[]> => {
    const own = heard.map(({ pid }) => pid).filter((pid) => pid !== process.pid && isRunning(pid));
    const pids = [...own, ...(real === null ? [] : processesOf(real))];
    const requests = await bed.simulator().runningRequests();
    return [
      ...pids.map((pid) => `process ${pid}`),
      ...(await folders()).map((folder) => `folder ${folder}`),
      ...(requests === 0 ? [] : [`${requests} requests of the engine`]),
      ...(service.running() === 0 ? [] : [`${service.running()} programs of the service`]),
    ];
  };
  for (const end = performance.now() + LEFT_MS; ;) {
    const left = await look();
    if (left.length === 0 || performance.now() > end) return left;
    await sleep(200);
  }
}
