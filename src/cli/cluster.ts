import path from 'node:path';
import { parseArgs } from 'node:util';
import { runCluster } from '../dev/cluster/cluster.js';
import { UsageError } from '../platform/command.js';
import { PROJECT_ROOT } from '../platform/project-root.js';

export async function clusterCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      exit: { type: 'boolean', default: false },
      folder: { type: 'string' },
      repeats: { type: 'string', default: '32' },
    },
  });
  const name = `cluster-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`;
  const num_repeats = Number(values.repeats);
  if (!Number.isInteger(num_repeats) || num_repeats < 1)
    throw new UsageError(`--repeats: expected a whole number from 1 on, got ${values.repeats}`);
  const folder = path.resolve(values.folder ?? path.join(PROJECT_ROOT, '.rollouts', name));
  return await runCluster({ folder, exit: values.exit, num_repeats });
}
