import type { z } from 'zod';
import type { FaultSpec } from '../src/dev/simulator/settings.js';

/** A process that may be frozen. */
export interface Stoppable {
  pause(): void;
  resume(): void;
}

/** What a fault may lay hands on: the parts of a run, of a contender that has them. */
export interface Target {
  /** Which of the schedule's moments this is, from 0. */
  index: number;
  /** What plays: the worker, or the loop's process. */
  player: Stoppable & {
    /** kill -9; then `meanwhile`, while none runs; then it starts again, and has started. */
    kill(meanwhile?: () => Promise<void>): Promise<void>;
    pid(): number;
  };
  engine: Stoppable & {
    kill(): Promise<void>;
    start(): Promise<void>;
    inject(fault: z.input<typeof FaultSpec>): Promise<void>;
  };
  /** Temporal's. */
  server: Stoppable & {
    kill(): Promise<void>;
    start(): Promise<void>;
  };
  /** What the batch's journals hold, by rollout id. */
  journals: () => Promise<Map<string, string>>;
  /** The folder that they are in, where they are files. */
  folder: string;
  /** null: they are files. */
  database:
    | (Stoppable & {
        kill(): Promise<void>;
        start(): Promise<void>;
        /** Of so many commits each worker does not hear that they were carried out. */
        loseAnswers(count: number): void;
        /** No worker reaches it, until they are let through. */
        cutOff(): void;
        letThrough(): void;
      })
    | null;
}
