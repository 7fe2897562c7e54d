import { CancellationScope, condition, sleep, workflowInfo } from '@temporalio/workflow';
import type { BatchPlan, RolloutsSeen } from '../../activities/contract.js';
import type { StreamPlan } from '../../activities/contract/stream.js';
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
) {
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
      pause_ms = pauseAfter(rollouts, Date.now() - runStartTime.getTime());
    }
  };
  return display(looks, { looking, seen });
}

const pauseAfter = ({ took_ms }: RolloutsSeen, age_ms: number): number =>
  Math.max(FIRST_MS, age_ms / SHARE_OF_AGE, took_ms * SHARE_OF_TIME);

/** Until they are cancelled. Only for display, so a failed one affects nothing else. `looks`: absent: none. */
function display(
  looks: true | undefined,
  { looking, seen }: Pick<Looks, 'seen'> & { looking: () => Promise<void> },
) {
  const scope = new CancellationScope();
  const ended = (): void => {
    seen(NOTHING_SEEN);
  };
  if (looks) scope.run(looking).then(ended, ended);
  return scope;
}

interface StepLooks {
  seen: Looks['seen'];
  running: () => [row: number, repeat: number][];
  /** The next step, and whether a trainer has asked for it. */
  step: () => { next: number; isAsked: boolean };
  onLook: () => void;
}

/** Looks at a stream's running rollouts while a trainer waits for a step: longer and longer, as a batch grows older. */
export function lookWhileStepsAreAwaited(
  { stream_id, looks }: StreamPlan,
  { seen, running, step, onLook }: StepLooks,
) {
  const looking = async (): Promise<void> => {
    for (;;) {
      await condition(() => step().isAsked);
      const asked_at = Date.now();
      const { next } = step();
      const isPut = (): boolean => step().next > next;
      for (let pause_ms = FIRST_MS; !(await condition(isPut, pause_ms));) {
        const rollouts = await lookAtRollouts({
          ...{ batch_id: stream_id, running: running() },
          in_groups: true,
        });
        onLook();
        seen(isPut() ? NOTHING_SEEN : rollouts);
        pause_ms = pauseAfter(rollouts, Date.now() - asked_at);
      }
      seen(NOTHING_SEEN);
    }
  };
  return display(looks, { looking, seen });
}

/** A rollout that was started by hand looks at itself: no batch does, and a missing worker says nothing. */
export function lookAtItself(seen: Looks['seen']) {
  const { parent, workflowId: batch_id } = workflowInfo();
  return lookWhileTheyRun(
    { batch_id, by_hand: true, ...(parent === undefined && { looks: true }) },
    { seen, running: () => [[0, 0]] },
  );
}
