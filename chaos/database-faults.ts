import type { ChaosFault } from './faults.js';
import type { Target } from './target.js';

/** Faults of a database and of the connection to it; workers wait longer than any of them lasts. */

const HELD_MS = 3000;
const DOWN_MS = 1000;
/** For each worker. */
const LOST_ANSWERS = 5;

const BASE = {
  hits: 2,
  interrupts: 'streams_while_held',
  part: 'store',
  store: 'postgres',
  short: null,
} as const;

export const DATABASE_FAULTS: readonly ChaosFault[] = [
  {
    ...BASE,
    name: 'database-kill',
    apply: (target) => databaseOf(target).kill(),
    hold_ms: DOWN_MS,
    lift: (target) => databaseOf(target).start(),
    short: 'alone',
  },
  {
    ...BASE,
    name: 'database-stop',
    apply: (target) => {
      databaseOf(target).pause();
    },
    hold_ms: HELD_MS,
    lift: (target) => {
      databaseOf(target).resume();
    },
  },
  {
    ...BASE,
    name: 'database-cut-off',
    apply: (target) => {
      databaseOf(target).cutOff();
    },
    hold_ms: HELD_MS,
    lift: (target) => {
      databaseOf(target).letThrough();
    },
  },
  {
    ...BASE,
    name: 'lost-answers',
    apply: (target) => {
      databaseOf(target).loseAnswers(LOST_ANSWERS);
    },
    hold_ms: HELD_MS,
    lift: (target) => {
      databaseOf(target).loseAnswers(0);
    },
    short: 'alone',
  },
];

function databaseOf({ database }: Target): NonNullable<Target['database']> {
  if (database === null) throw new Error('this store has no database');
  return database;
}
