import { parseArgs } from 'node:util';
import { followLifeline } from '../local/lifeline.js';
import { loadConfig } from '../workers/config.js';
import { runWorker } from '../workers/run-worker.js';

export async function workerCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: { config: { type: 'string', default: './temporal.yaml' } },
  });
  const config = await loadConfig(values.config);
  const shutdown = new AbortController();
  const end = (): void => {
    shutdown.abort();
  };
  // A second signal ends the process at once.
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  followLifeline(process.env, end);
  await runWorker(config, shutdown.signal);
  return 0;
}
