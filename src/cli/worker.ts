import { parseArgs } from 'node:util';
import { dieOfInterrupt } from '../platform/process/interrupts.js';
import { untilShutdown } from '../platform/process/lifeline.js';
import { loadConfig } from '../workers/config.js';
import { runWorker } from '../workers/run-worker.js';

export async function workerCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: { config: { type: 'string', default: './temporal.yaml' } },
  });
  const config = await loadConfig(values.config);
  dieOfInterrupt();
  await runWorker(config, () => untilShutdown(process.env));
  return 0;
}
