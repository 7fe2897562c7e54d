import { parseArgs } from 'node:util';
import { dieOfInterrupt } from '../platform/process/interrupts.js';
import { untilShutdown } from '../platform/process/lifeline.js';
import { loadConfig } from '../workers/config.js';
import { FILE } from './arguments.js';

export async function workerCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: { config: FILE },
  });
  const config = await loadConfig(values.config);
  // After the settings, which may have a problem: it takes most of the time until a worker runs.
  const { runWorker } = await import('../workers/run-worker.js');
  dieOfInterrupt();
  await runWorker(config, () => untilShutdown(process.env));
  return 0;
}
