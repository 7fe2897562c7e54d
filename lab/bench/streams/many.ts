import path from 'node:path';
import { mean } from '../../../src/model/results/statistics.js';
import { puzzleRequest } from '../../bed/puzzle-request.js';
import { diskUsage } from '../disk-usage.js';
import { cpuMs, residentMb } from '../process-usage.js';
import { heading, row, startStreamBed, trainOn } from './play.js';

/** A stream of many groups: the cost of a group as the stream grows older. */
const TENTHS = 10;
const GROUPS_PER_STEP = 50;

interface Tenth {
  wall_s: number;
  /** Per group: worker and Temporal server. */
  cpu_ms: number;
  worker_mb: number;
  store: { mb: number; inodes: number };
}

export async function many({ groups }: { groups: number }): Promise<void> {
  const bed = await startStreamBed('many', {
    simulator: { tokens_per_second: 0, thinking_tokens: 4 },
  });
  try {
    const tenths: Tenth[] = [];
    const { pid } = bed.ownServer();
    const spent = async (): Promise<number> => (await cpuMs(bed.worker.pid())) + (await cpuMs(pid));
    let since = { at: performance.now(), cpu: await spent() };
    const runs = new Set<string>();
    const steps = groups / GROUPS_PER_STEP;
    const reading: Promise<void>[] = [];
    await trainOn(bed, {
      id: 'many',
      request: {
        ...puzzleRequest({ samples: 20, num_repeats: 1 }, { max_rollout_turns: 1 }),
        groups_per_step: GROUPS_PER_STEP,
        keep_steps: 3,
      },
      train_ms: 0,
      publishes: false,
      hasEnough: ({ came }) => {
        const at = performance.now();
        const note = async (): Promise<void> => {
          runs.add((await bed.stream('many').handle().describe()).runId);
          if (came.length % (steps / TENTHS) !== 0) return;
          const cpu = await spent();
          const count = groups / TENTHS;
          tenths.push({
            wall_s: (at - since.at) / 1000,
            cpu_ms: (cpu - since.cpu) / count,
            worker_mb: await residentMb(bed.worker.pid()),
            store: await diskUsage(path.dirname(bed.journals('many'))),
          });
          since = { at, cpu };
          console.log(`${came.length * GROUPS_PER_STEP} groups: ${JSON.stringify(tenths.at(-1))}`);
        };
        reading.push(note());
        return came.length >= steps;
      },
    });
    await Promise.all(reading);
    console.log(
      `\n${heading(['groups up to', 'a step, s', 'CPU ms a group', 'worker MB', 'store MB', 'inodes'])}`,
    );
    for (const [i, { wall_s, cpu_ms, worker_mb, store }] of tenths.entries())
      console.log(
        row([
          ((i + 1) * groups) / TENTHS,
          (wall_s / (steps / TENTHS)).toFixed(2),
          cpu_ms.toFixed(1),
          worker_mb.toFixed(0),
          store.mb.toFixed(1),
          store.inodes,
        ]),
      );
    const [, second, ...rest] = tenths;
    console.log(
      `\nlast tenth / second tenth: ${((rest.at(-1)?.cpu_ms ?? 0) / (second?.cpu_ms ?? 1)).toFixed(3)} of CPU; mean ${mean(tenths.map(({ cpu_ms }) => cpu_ms)).toFixed(1)} ms a group`,
    );
    for (const runId of runs) {
      const description = await bed.server().client.workflow.getHandle('many', runId).describe();
      console.log(
        `run ${runId}: ${description.historyLength} events, ${description.historySize ?? '?'} bytes`,
      );
    }
  } finally {
    await bed.end();
  }
}
