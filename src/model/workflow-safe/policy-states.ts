/** The words in which a policy and its replicas are told. */

export const REPLICA_STATES = [
  /** It serves its version. */
  'current',
  /** It is being updated. */
  'updating',
  /** Its memory is somebody else's for a while: it is asked nothing. */
  'asleep',
  /** Its weights are unknown: it serves nothing until it has been given some. */
  'unknown',
  /** It does not answer. */
  'away',
] as const;
export type ReplicaState = (typeof REPLICA_STATES)[number];

/** `load`: it is half loaded, and is cut off until it gets whole weights. `restart`: only a new process helps. */
export const REPLICA_NEEDS = ['load', 'restart'] as const;

/** 1: weights wait in the memory of the host; 2: they are dropped. */
export const SLEEP_LEVELS = [1, 2] as const;
export type SleepLevel = (typeof SLEEP_LEVELS)[number];

/** Its phases, in order. */
export const PHASES = [
  'record',
  'wake',
  'pause',
  'load',
  'label',
  'cache',
  'resume',
  'probe',
  'adapter',
] as const;
export type Phase = (typeof PHASES)[number];

/** Updates of workflow `policy`, of weights. Activities read their inputs. */
export const ORDERS = [
  'publish',
  // From a trainer that sends weights itself.
  'begin',
  'finish',
  'abandon',
  'attach',
  // A trainer no longer brings weights.
  'release',
  // A trainer needs the engines' memory for a while.
  'sleep',
  'wake',
] as const;

/** Updates of workflow `policy`: which replicas there are. The activity reads their inputs. */
export const REPLICA_ORDERS = ['engines', 'join', 'drain', 'leave'] as const;
