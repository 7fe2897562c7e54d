import { describeError } from '../../src/platform/errors.js';
import type { GymRow } from '../row.js';
import { rolloutName } from '../row.js';
import type { Routed } from '../collection/follow/routing.js';
import { attachCapture, captureId } from './attach.js';
import { createCaptureStore } from './capture-store.js';

export type Captures = ReturnType<typeof createCaptures>;

/** The captured model calls of one collection. */
export function createCaptures({
  capture_dir = null,
  say,
}: {
  capture_dir?: string | null | undefined;
  say: (text: string) => void;
}) {
  const store = capture_dir === null ? null : createCaptureStore(capture_dir);
  return {
    /** Call it before these rows are played, each up to `attempts` times: removes files of earlier plays with their ids. */
    clear: async (rows: readonly GymRow[], attempts: number): Promise<void> => {
      if (store === null || rows.length === 0) return;
      say('Clearing existing model-call captures for rollouts being dispatched');
      for (const row of rows) {
        for (let attempt = row.attempt_index; attempt < row.attempt_index + attempts; attempt++) {
          const id = captureId(row, attempt);
          if (id !== null) await store.clear(id);
        }
      }
    },
    /**
     * Adds the captured calls of its play to an answer; for a run that was sent again, only those after `since`. Never
     * rejects: if nothing can be added, the answer stays as it is.
     */
    attach: ({ result, row, attempt }: Routed, since: number | null): Promise<void> =>
      attachCapture(result, { row, attempt, since, store, say }).catch((error: unknown) => {
        say(
          `Observations of ${rolloutName(row.key)} stay as its agent reported them: ${describeError(error)}`,
        );
      }),
  };
}
