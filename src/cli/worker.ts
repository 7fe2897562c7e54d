import { dieOfInterrupt } from '../platform/process/interrupts.js';
import { untilShutdown } from '../platform/process/lifeline.js';
import { loadConfig } from '../workers/config.js';
import { optionsIn } from '../platform/arguments.js';
import { FILE } from './settings-file.js';

export async function workerCommand(args: string[]): Promise<number> {
  const { config: file } = optionsIn(args, { config: FILE });
  const config = await loadConfig(file);
  // After the settings, which may have a problem: it takes most of the time until a worker runs.
  const { runWorker } = await import('../workers/run-worker.js');
  dieOfInterrupt();
  await runWorker(config, () => untilShutdown(process.env));
  return 0;
}
