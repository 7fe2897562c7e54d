import type { Interrupts } from './bounds.js';
import { DATABASE_FAULTS } from './database-faults.js';
import { HTTP_FAULTS } from './http-faults.js';
import { OPENING_KILL } from './opening-kill.js';
import { STORE_FAULTS } from './store-faults.js';
import type { StoreKind } from './stores.js';
import type { Target } from './target.js';

export interface ChaosFault {
  name: string;
  /** How often it strikes. */
  hits: number;
  /** Resolves when the next hit is due; absent: at the schedule's moment, when a stream is open. */
  isDue?: (target: Target) => Promise<void>;
  apply: (target: Target) => Promise<void> | void;
  /** From `apply` to `lift`. */
  hold_ms: number;
  lift: (target: Target) => Promise<void> | void;
  interrupts: Interrupts;
  /** The affected part. Loops have no Temporal server, no store and no second worker. */
  part: 'player' | 'engine' | 'server' | 'store' | 'two_workers';
  /** The one kind of store that it affects; absent: any. */
  store?: StoreKind;
  /** In the short form: with the loops, alone, or not at all. */
  short: 'with_loops' | 'alone' | null;
}

const nothing = (): void => undefined;

/** An engine and a server are down this long: about what a supervisor and a start take. */
const DOWN_MS = 1000;
/** Twice the heartbeat timeout, so that Temporal notices a missing heartbeat. */
const FROZEN_MS = 4000;
/**
 * Longer than the idle timeout and the question whether the engine is paused, which a frozen engine does not answer.
 */
const FROZEN_ENGINE_MS = 9000;

const PROCESS_FAULTS: readonly ChaosFault[] = [
  {
    name: 'worker-kill',
    hits: 3,
    apply: ({ player }) => player.kill(),
    hold_ms: 0,
    lift: nothing,
    interrupts: 'open_streams',
    part: 'player',
    short: 'with_loops',
  },
  {
    name: 'worker-stop',
    hits: 2,
    apply: ({ player }) => {
      player.pause();
    },
    hold_ms: FROZEN_MS,
    lift: ({ player }) => {
      player.resume();
    },
    interrupts: 'stopped_worker',
    part: 'player',
    short: null,
  },
  {
    name: 'zombie-attempt',
    hits: 2,
    // The other worker takes over, and this one returns while the other plays.
    apply: ({ player }) => {
      player.pause();
    },
    hold_ms: FROZEN_MS,
    lift: ({ player }) => {
      player.resume();
    },
    interrupts: 'stopped_worker',
    part: 'two_workers',
    short: null,
  },
  {
    name: 'engine-kill',
    hits: 3,
    apply: ({ engine }) => engine.kill(),
    hold_ms: DOWN_MS,
    lift: ({ engine }) => engine.start(),
    interrupts: 'open_streams',
    part: 'engine',
    short: 'alone',
  },
  {
    name: 'engine-stop',
    hits: 2,
    apply: ({ engine }) => {
      engine.pause();
    },
    hold_ms: FROZEN_ENGINE_MS,
    lift: ({ engine }) => {
      engine.resume();
    },
    interrupts: 'open_streams',
    part: 'engine',
    short: null,
  },
  {
    name: 'server-kill',
    hits: 2,
    apply: ({ server }) => server.kill(),
    hold_ms: DOWN_MS,
    lift: ({ server }) => server.start(),
    interrupts: 'streams_while_held',
    part: 'server',
    short: null,
  },
  {
    name: 'server-stop',
    hits: 2,
    apply: ({ server }) => {
      server.pause();
    },
    hold_ms: FROZEN_MS,
    // When the server resumes, every worker has been silent.
    lift: ({ server }) => {
      server.resume();
    },
    interrupts: 'stopped_worker',
    part: 'server',
    short: null,
  },
];

/** All faults, one per run. */
export const FAULTS: readonly ChaosFault[] = [
  ...PROCESS_FAULTS,
  OPENING_KILL,
  ...HTTP_FAULTS,
  ...STORE_FAULTS,
  ...DATABASE_FAULTS,
];
