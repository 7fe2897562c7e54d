import { randomBytes } from 'node:crypto';
import { Fault } from '../model/faults.js';
import { preview } from '../model/problems.js';
import type { Facts } from './trajectory-store.js';

/**
 * A store's own name, whatever its address: whoever reads the same has the same store. It is a fact, so whoever asks
 * first makes it, and a copy of the store has it, too.
 */

const SERIES = ['_store'] as const;
const DIGITS = 12;
const WRITTEN = new RegExp(`^"([0-9a-f]{${DIGITS}})"\\n$`);

/** null: nobody has asked for it yet, so no worker has used the store. */
export async function findStoreId(facts: Facts): Promise<string | null> {
  const text = await facts.find(SERIES, 0);
  if (text === null) return null;
  const [, id] = WRITTEN.exec(text) ?? [];
  if (id !== undefined) return id;
  const message = `the store's id (_store/0): expected ${DIGITS} hexadecimal digits in quotes, got ${preview(text)}`;
  throw new Fault({ type: 'StoreFault', message });
}

export async function storeIdOf(facts: Facts): Promise<string> {
  const existing = await findStoreId(facts);
  if (existing !== null) return existing;
  const id = randomBytes(DIGITS / 2).toString('hex');
  if (await facts.put({ series: SERIES, n: 0, text: `"${id}"\n` })) return id;
  const others = await findStoreId(facts);
  if (others !== null) return others;
  throw new Fault({ type: 'StoreFault', message: "the store's id (_store/0) is gone" });
}
