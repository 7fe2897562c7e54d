import type { StepResult } from '../../activities/contract/stream.js';
import { closeStep, forgetSteps } from '../activity-options.js';

/** Writes and deletes the rows of steps that have been put. */
export interface Deliveries {
  /** Writes the rows, or finds them written. At most one write per step runs at a time. */
  rowsOf(step: number): Promise<StepResult>;
  /** Deletes those up to this step, never while they are being written. */
  forget(through: number): Promise<void>;
  /** Whether the rows of a step are being written. */
  areWriting(): boolean;
  /** Whether anything is being written or deleted. */
  areBusy(): boolean;
}

export function deliver(stream_id: string, onChange: () => void): Deliveries {
  const writing = new Map<number, Promise<StepResult>>();
  let forgetting = 0;
  return {
    rowsOf: (step) => {
      const running = writing.get(step);
      if (running !== undefined) return running;
      const rows = closeStep({ stream_id, step });
      const over = (): void => {
        writing.delete(step);
        onChange();
      };
      writing.set(step, rows);
      rows.then(over, over);
      return rows;
    },
    forget: async (through) => {
      forgetting += 1;
      try {
        const before = [...writing].filter(([step]) => step <= through);
        await Promise.allSettled(before.map(([, rows]) => rows));
        await forgetSteps({ stream_id, through });
      } finally {
        forgetting -= 1;
        onChange();
      }
    },
    areWriting: () => writing.size > 0,
    areBusy: () => writing.size > 0 || forgetting > 0,
  };
}
