import type { Duration } from '@temporalio/common';
import type { Operator } from '../../bed/operator.js';
import type { Unreadable } from '../../../test/fakes/hostile-inputs.js';

/** A batch or a stream as an operator sees it. */
export interface Subject {
  name: 'batch' | 'stream';
  /** Its workflow id. */
  id: string;
  operator: Operator;
  /** Starts its id with its request. */
  start: (delay?: Duration) => Promise<void>;
  /** Ids of the open workflows that it has started: rollouts, or groups. */
  children: () => Promise<string[]>;
  /** Sends every signal, or every update, to a workflow in this form. */
  signal: (id: string, kind: Unreadable) => Promise<void>;
  update: (kind: Unreadable) => Promise<void>;
  failedTasks: (id: string) => Promise<number>;
  look: () => Promise<Looked>;
  /** Grows with everything that its rollouts play. */
  played: () => Promise<number>;
}

/** What clients show of it. */
export interface Looked {
  isOpen: boolean;
  /** It has its plan, and is neither paused nor delayed. */
  plays: boolean;
  /** How long its run has been open. */
  age_s: number;
  /** Why it cannot go on, or what it waits for; null: nothing. */
  waits: string | null;
}
