import type { MadeOnce } from './made-once.js';
import { findMade, made } from './made-once.js';
import type { Facts } from './trajectory-store.js';

type SomeFacts = Pick<Facts, 'find' | 'put'>;

/** A store's own name, whatever its address: whoever reads the same has the same store. */
const ID: MadeOnce = { series: ['_store'], digits: 12, what: "the store's id" };

/** Of the keys that workers give to programs: one for all workers, whoever signs and whoever checks. */
const KEY_SECRET: MadeOnce = {
  series: ['_gateway'],
  digits: 64,
  what: "the secret of programs' keys",
  is_secret: true,
};

/** null: nobody has asked for it yet, so no worker has used the store. */
export const findStoreId = (facts: SomeFacts): Promise<string | null> => findMade(facts, ID);
export const storeIdOf = (facts: SomeFacts): Promise<string> => made(facts, ID);
export const keySecretOf = (facts: SomeFacts): Promise<string> => made(facts, KEY_SECRET);
