import type { CutProxy } from '../bed/cut-proxy.js';
import type { ChaosFault } from './fault.js';
import { down, fault, frozen } from './fault.js';
import type { Target } from './target.js';

/** Faults of a database and of the connection to it; workers wait longer than any of them lasts. */

/** For each worker. */
const LOST_ANSWERS = 5;

const BASE = { interrupts: 'streams_while_held', part: 'store', store: 'postgres' } as const;
const HELD = { ...BASE, hold_ms: 3000 } as const;

const onProxies =
  (change: (proxy: CutProxy) => void) =>
  (target: Target): void => {
    databaseOf(target).proxies.forEach(change);
  };

export const DATABASE_FAULTS: readonly ChaosFault[] = [
  down('database-kill', { ...BASE, of: databaseOf, short: 'alone' }),
  frozen('database-stop', { ...HELD, of: databaseOf }),
  fault('database-cut-off', {
    ...HELD,
    apply: onProxies((proxy) => {
      proxy.close();
    }),
    lift: onProxies((proxy) => {
      proxy.open();
    }),
  }),
  fault('lost-answers', {
    ...HELD,
    apply: onProxies((proxy) => {
      proxy.cutAnswers(LOST_ANSWERS);
    }),
    lift: onProxies((proxy) => {
      proxy.cutAnswers(0);
    }),
    short: 'alone',
  }),
];

function databaseOf({ database }: Target): NonNullable<Target['database']> {
  if (database === null) throw new Error('this store has no database');
  return database;
}
