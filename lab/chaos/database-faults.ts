import type { ChaosFault } from './fault.js';
import { down, fault, frozen } from './fault.js';
import type { Target } from './target.js';

/** Faults of a database and of the connection to it; workers wait longer than any of them lasts. */

/** For each worker. */
const LOST_ANSWERS = 5;

const BASE = { interrupts: 'streams_while_held', part: 'store', store: 'postgres' } as const;
const HELD = { ...BASE, hold_ms: 3000 } as const;

export const DATABASE_FAULTS: readonly ChaosFault[] = [
  down('database-kill', { ...BASE, of: databaseOf, short: 'alone' }),
  frozen('database-stop', { ...HELD, of: databaseOf }),
  fault('database-cut-off', {
    ...HELD,
    apply: (target) => {
      databaseOf(target).cutOff();
    },
    lift: (target) => {
      databaseOf(target).letThrough();
    },
  }),
  fault('lost-answers', {
    ...HELD,
    apply: (target) => {
      databaseOf(target).loseAnswers(LOST_ANSWERS);
    },
    lift: (target) => {
      databaseOf(target).loseAnswers(0);
    },
    short: 'alone',
  }),
];

function databaseOf({ database }: Target): NonNullable<Target['database']> {
  if (database === null) throw new Error('this store has no database');
  return database;
}
