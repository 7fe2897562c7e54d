import type { Freezing } from '../bed/freezing.js';
import type { Interrupts } from './bounds.js';
import type { StoreKind } from './stores.js';
import type { Killable, Target } from './target.js';

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

type Facts = Partial<ChaosFault> & Pick<ChaosFault, 'interrupts' | 'part'>;

/** One that strikes twice at a moment, and is in no short form, unless it says otherwise. */
export const fault = (
  name: string,
  { apply, ...facts }: Facts & Pick<ChaosFault, 'apply'>,
): ChaosFault => ({
  name,
  hits: 2,
  apply,
  hold_ms: 0,
  lift: () => undefined,
  short: null,
  ...facts,
});

/** A process is frozen for a while. */
export const frozen = (
  name: string,
  { of, ...facts }: Facts & { of: (target: Target) => Freezing },
): ChaosFault =>
  fault(name, {
    apply: (target) => {
      of(target).pause();
    },
    lift: (target) => {
      of(target).resume();
    },
    ...facts,
  });

/** About what a supervisor and a start take. */
const DOWN_MS = 1000;

/** A process is killed, and started again after a while. */
export const down = (
  name: string,
  { of, ...facts }: Facts & { of: (target: Target) => Pick<Killable, 'kill' | 'start'> },
): ChaosFault =>
  fault(name, {
    apply: (target) => of(target).kill(),
    hold_ms: DOWN_MS,
    lift: (target) => of(target).start(),
    ...facts,
  });
