import { parseArgs } from 'node:util';
import { loadConfig } from '../workers/config.js';
import { migrateStore } from '../workers/open-store.js';

/** `store migrate`. */
export async function storeCommand([verb = '', ...args]: string[]): Promise<number> {
  if (verb !== 'migrate') {
    console.error(`expected store migrate, got ${JSON.stringify(verb)}`);
    return 2;
  }
  const { values } = parseArgs({
    args,
    options: { config: { type: 'string', default: './temporal.yaml' } },
  });
  console.log(await migrateStore(await loadConfig(values.config), process.env));
  return 0;
}
