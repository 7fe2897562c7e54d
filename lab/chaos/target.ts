import type { CutProxy } from '../bed/cut-proxy.js';
import type { Engine } from '../bed/engine.js';
import type { Freezing } from '../bed/freezing.js';

/** A process that may be killed, started again and frozen. */
export interface Killable extends Freezing {
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** What a fault may affect: the parts of a run, if its contender has them. */
export interface Target {
  /** The number of the schedule's moment, from 0. */
  index: number;
  /** What plays: the worker, or the loop's process. */
  player: Freezing & {
    /** kill -9, then `meanwhile`, then a restart; resolves when it runs again. */
    kill(meanwhile?: () => Promise<void>): Promise<void>;
    pid(): number;
  };
  engine: Killable & Pick<Engine, 'process'>;
  /** Temporal's server. */
  server: Killable;
  /** The lines of the batch's journals, by rollout id. */
  journals: () => Promise<Map<string, string>>;
  /** The folder of the journals, if they are files. */
  folder: string;
  /** null: journals are files. */
  database:
    | (Killable & {
        /** Between it and each of the workers. */
        proxies: readonly CutProxy[];
      })
    | null;
}
