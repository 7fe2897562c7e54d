import { mostOpenFiles } from '../platform/process/open-files.js';
import type { Config } from './config.js';
import { memoryOf } from './config.js';

export const RAISE_LIMIT =
  'raise the hard limit where workers run: ulimit -Hn of the shell, LimitNOFILE of systemd, --ulimit nofile of Docker';

/** What a low limit of open files leaves of a worker's concurrency; null: all of it. */
export function cutByOpenFiles(
  config: Pick<Config, 'worker' | 'environments' | 'generation'>,
  open_files = mostOpenFiles(),
): string | null {
  const [plan, free] = [memoryOf(config, open_files), memoryOf(config, Infinity)];
  const isCut = (['generations', 'plays', 'steps', 'others'] as const).some(
    (one) => plan[one] < free[one],
  );
  if (!isCut) return null;
  const { generations, plays, steps } = plan;
  return `a process may open ${open_files} files and connections: at most ${plays} rollouts, ${generations} generations and ${steps} steps of environments at once`;
}
