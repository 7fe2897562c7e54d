import path from 'node:path';
import { descendantsWith } from '../bed/process-tree.js';
import type { Usage } from './process-usage.js';
import { usageOf } from './process-usage.js';

export const COMMAND = path.resolve('dist', 'src', 'cli', 'main.js');
const LOOK_MS = 500;

/** What `temporal-rollout collect` starts, found by a part of the command line. */
export const COLLECT_PARTS = { worker: `${COMMAND}\0worker`, 'Temporal server': 'start-dev' };

/** Usage of a collector and of the processes that it starts, until it is ended: the last reading of each. */
export function watchParts(
  pid: number,
  found: Record<string, string>,
): { end: () => Map<string, Usage> } {
  const seen = new Map<string, Usage>();
  const look = async (): Promise<void> => {
    const parts = Object.entries(found).map(
      ([name, text]) => [name, descendantsWith(pid, text)[0]] as const,
    );
    for (const [name, part] of [['collect', pid] as const, ...parts]) {
      const usage = part === undefined ? null : await usageOf(part);
      if (usage !== null) seen.set(name, usage);
    }
  };
  const looking = setInterval(() => void look(), LOOK_MS);
  return {
    end: () => {
      clearInterval(looking);
      return seen;
    },
  };
}
