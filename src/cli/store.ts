import { parseArgs } from 'node:util';
import { UsageError } from '../platform/command.js';
import { loadConfig } from '../workers/config.js';
import { migrateStore } from '../workers/open-store.js';
import { FILE } from './arguments.js';

/** `store migrate`. */
export async function storeCommand([verb = '', ...args]: string[]): Promise<number> {
  if (verb !== 'migrate')
    throw new UsageError(`expected store migrate, got ${JSON.stringify(verb)}`);
  const { values } = parseArgs({
    args,
    options: { config: FILE },
  });
  console.log(await migrateStore(await loadConfig(values.config), process.env));
  return 0;
}
