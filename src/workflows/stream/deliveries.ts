import type { StepResult } from '../../activities/contract/stream.js';
import { closeStep, forgetSteps } from '../activity-options.js';

export type Deliveries = ReturnType<typeof deliver>;

export function deliver(stream_id: string, onChange: () => void) {
  const writing = new Map<number, Promise<StepResult>>();
  let forgetting = 0;
  return {
    /** Writes the rows, or finds them written. At most one write per step runs at a time. */
    rowsOf: (step: number): Promise<StepResult> => {
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
    /** Deletes those up to this step, never while they are being written. */
    forget: async (through: number): Promise<void> => {
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
