import type { Trajectory } from '../../model/trajectory.js';
import type { Activities, TurnProgress, TurnRef } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import type { Hold } from './hold.js';
import { notStarted } from './hold.js';
import { progressOf } from './turn-progress.js';

/**
 * The frame of every turn activity: claim the journal, play from where it stands, make it durable, report totals.
 * A rollout that has ended is only reported.
 */
export function playFromJournal(
  { attempt, store }: Dependencies,
  {
    activity,
    play,
    look,
  }: {
    activity: keyof Activities;
    play: (hold: Hold) => Promise<void>;
    /** Before a retry claims the journal, which grows by that: throws what the attempt waits for, where the journal says that already. */
    look?: (trajectory: Trajectory, signal: AbortSignal) => Promise<void>;
  },
): (at: TurnRef) => Promise<TurnProgress> {
  return ({ batch_id, row, repeat, limits }) =>
    attempt(async ({ signal, number, sayWaiting }) => {
      const ref = { batch_id, row, repeat };
      if (look !== undefined && number > 1) await look(await store.readTrajectory(ref), signal);
      const journal = await store.claim(ref, {
        activity,
        attempt: number,
        ...(limits !== undefined && { limits }),
      });
      try {
        const { trajectory } = journal;
        if (trajectory.end === null) {
          if (trajectory.start === null) throw notStarted(ref);
          await play({ journal, ref, signal, sayWaiting });
        }
        await journal.commit();
        return progressOf(trajectory);
      } finally {
        journal.release();
      }
    });
}
