import type { z } from 'zod';
import type { FaultSpec } from '../../simulator/settings.js';

/** A process that may be frozen. */
export interface Stoppable {
  pause(): void;
  resume(): void;
}

/** What a fault may affect: the parts of a run, if its contender has them. */
export interface Target {
  /** The number of the schedule's moment, from 0. */
  index: number;
  /** What plays: the worker, or the loop's process. */
  player: Stoppable & {
    /** kill -9, then `meanwhile`, then a restart; resolves when it runs again. */
    kill(meanwhile?: () => Promise<void>): Promise<void>;
    pid(): number;
  };
  engine: Stoppable & {
    kill(): Promise<void>;
    start(): Promise<void>;
    inject(fault: z.input<typeof FaultSpec>): Promise<void>;
  };
  /** Temporal's server. */
  server: Stoppable & {
    kill(): Promise<void>;
    start(): Promise<void>;
  };
  /** The lines of the batch's journals, by rollout id. */
  journals: () => Promise<Map<string, string>>;
  /** The folder of the journals, if they are files. */
  folder: string;
  /** null: journals are files. */
  database:
    | (Stoppable & {
        kill(): Promise<void>;
        start(): Promise<void>;
        /** Each worker gets no answer to this many commits, which were executed. */
        loseAnswers(count: number): void;
        /** Blocks all workers' connections until they are let through. */
        cutOff(): void;
        letThrough(): void;
      })
    | null;
}
