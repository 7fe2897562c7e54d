import type { Facts, Series } from './trajectory-store.js';
import { randomBytes } from 'node:crypto';
import { Fault } from '../model/faults.js';
import { preview } from '../model/problems.js';

type SomeFacts = Pick<Facts, 'find' | 'put'>;

/** A store's own name: two workers that read the same one have the same store, by whatever address. */
const ID: MadeOnce = { series: ['_store'], digits: 12, what: "the store's id" };

/** The secret of the keys that workers give to programs. All workers share it, because any may check a key. */
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

/** A random name or key of a store. It is a fact: the first who asks makes it, and a copy of the store has it, too. */
interface MadeOnce {
  series: Series;
  /** Hexadecimal, an even number of them. */
  digits: number;
  /** For messages. */
  what: string;
  /** Messages never quote it. */
  is_secret?: true;
}

/** null: nobody has asked for it yet. */
async function findMade(facts: Pick<Facts, 'find'>, one: MadeOnce): Promise<string | null> {
  const { series, digits, is_secret } = one;
  const text = await facts.find(series, 0);
  if (text === null) return null;
  const [, made] = /^"([0-9a-f]+)"\n$/.exec(text) ?? [];
  if (made?.length === digits) return made;
  const got = is_secret === true ? 'another text' : preview(text);
  const message = `${nameOf(one)}: expected ${digits} hexadecimal digits in quotes, got ${got}`;
  throw new Fault({ type: 'StoreFault', message });
}

async function made(facts: Pick<Facts, 'find' | 'put'>, one: MadeOnce): Promise<string> {
  const existing = await findMade(facts, one);
  if (existing !== null) return existing;
  const own = randomBytes(one.digits / 2).toString('hex');
  if (await facts.put({ series: one.series, n: 0, text: `"${own}"\n` })) return own;
  const others = await findMade(facts, one);
  if (others !== null) return others;
  throw new Fault({ type: 'StoreFault', message: `${nameOf(one)} is gone` });
}

const nameOf = ({ what, series }: MadeOnce): string => `${what} (${series.join('/')}/0)`;
