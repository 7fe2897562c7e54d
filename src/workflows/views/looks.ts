import { CancellationScope, patched, sleep, workflowInfo } from '@temporalio/workflow';
import type { BatchPlan, RolloutsSeen } from '../../activities/contract.js';
import { lookAtRollouts } from '../activity-options.js';

/** A batch that ends before has no looks. */
const FIRST_MS = 5000;
/** The pause before a look is a fifteenth of the batch's age: some 125 looks in its first day, at 11 events each. */
const SHARE_OF_AGE = 15;
/** A look at very many journals takes a while: at most a twentieth of one processor. */
const SHARE_OF_TIME = 20;
/** Limit of the batch's history for looks; the rest is for rollouts and updates. */
const MOST_EVENTS = 5000;

/** After the last look nobody knows what they wait for. */
const NOTHING_SEEN: RolloutsSeen = { turns: 0, tokens: 0, waiting: null, took_ms: 0 };

interface Looks {
  seen: (rollouts: RolloutsSeen) => void;
  /** Row and repeat of each rollout that runs; null: slices run them. */
  running: () => [row: number, repeat: number][] | null;
}

/** Looks at the batch's rollouts from time to time until they are over. */
export function lookWhileTheyRun(
  { batch_id, looks, by_hand }: Pick<BatchPlan, 'batch_id' | 'looks'> & { by_hand?: true },
  { seen, running }: Looks,
): { over: () => void } {
  const scope = new CancellationScope();
  const looking = async (): Promise<void> => {
    const { runStartTime } = workflowInfo();
    for (let pause_ms = FIRST_MS; workflowInfo().historyLength < MOST_EVENTS;) {
      await sleep(pause_ms, { summary: 'looks at its rollouts' });
      const now = running();
      const rollouts = await lookAtRollouts({
        batch_id,
        ...(now !== null && { running: now }),
        ...(by_hand && { by_hand }),
      });
      seen(rollouts);
      const age_ms = Date.now() - runStartTime.getTime();
      pause_ms = Math.max(FIRST_MS, age_ms / SHARE_OF_AGE, rollouts.took_ms * SHARE_OF_TIME);
    }
  };
  // Looks are only for display, so a failed one does not affect the batch.
  const ended = (): void => {
    seen(NOTHING_SEEN);
  };
  if (looks === true) scope.run(looking).then(ended, ended);
  return {
    over: () => {
      scope.cancel();
    },
  };
}

/** Nobody else looks at a rollout that was started by hand, and a worker that is missing cannot say it. */
export function lookAtItself(seen: Looks['seen']): { over: () => void } {
  const { parent, workflowId: batch_id } = workflowInfo();
  // Histories from before have no looks.
  const looks = parent === undefined && patched('looks at itself');
  if (!looks) return { over: () => undefined };
  return lookWhileTheyRun({ batch_id, looks, by_hand: true }, { seen, running: () => [[0, 0]] });
}
