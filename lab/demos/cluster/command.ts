import path from 'node:path';
import { runCluster } from './cluster.js';
import { FLAG, TEXT, integerOf, optionsIn } from '../../../src/platform/arguments.js';

export async function clusterCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, {
    exit: FLAG,
    folder: TEXT,
    repeats: { type: 'string', default: '32' },
  });
  const name = `cluster-${new Date().toISOString().replace(/[-:]|\.\d+/g, '')}`;
  const num_repeats = integerOf('--repeats', { text: values.repeats, least: 1 });
  const folder = path.resolve(values.folder ?? path.join('.rollouts', name));
  return await runCluster({ folder, exit: values.exit, num_repeats });
}
