import type { RolloutRef } from '../model/batch-request.js';
import { naturalEnd } from '../model/turn/stop-rules.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import type { Share } from '../platform/waits/allowance.js';
import { withShare } from '../platform/waits/allowance.js';
import type { Claimant, Journal } from '../trajectories/trajectory-store.js';
import { checkAgentIsThere } from './agent/run-agent.js';
import type { Attempt } from './attempt.js';
import type { RolloutEnd } from './close/end-rollout.js';
import { endRollout } from './close/end-rollout.js';
import type { Activities, TurnProgress, TurnRef } from './contract.js';
import type { Dependencies } from './dependencies.js';
import { givingWay } from './giving-way.js';
import type { Hold } from './hold.js';
import { journalLost } from './hold.js';
import { underChangingLimits } from './limits/take-limits.js';
import { placeIn, progressOf } from './report.js';

/** Minimum share for a journal's fold. */
const LEAST_HELD_BYTES = 16_384;

/** The rollout that an attempt plays, and the activity under which it claims the journal. */
export interface Playing
  extends Omit<Hold, 'journal' | 'idles'>, Pick<Attempt, 'number' | 'lost_ms'> {
  ref: RolloutRef;
  by: Claimant;
  /** Plays on from where the journal is. Not called for a rollout that has ended. */
  play?: (hold: Hold) => Promise<void>;
  /** The end of a rollout whose turns have reached none; null: it continues. */
  otherwise?: (trajectory: Trajectory) => RolloutEnd | null;
}

/**
 * The frame of every activity that plays or ends a rollout: claim the journal, play on from where it is, write the end,
 * make everything durable. The journal takes precedence: first an existing end, then one that the turns have reached,
 * then the caller's reason. Returns the resulting trajectory.
 */
export async function playFromJournal(
  { ref, by, play, otherwise, number, lost_ms, ...given }: Playing,
  dependencies: Dependencies,
): Promise<Trajectory> {
  const { store, folds } = dependencies;
  const isCrowded = () => given.isCrowded() || folds.isAwaited();
  return await withShare(folds, async (share) =>
    givingWay({ ...given, isCrowded }, async (own) => {
      const attempt = { ...given, ...own, isCrowded };
      // Before the fold, only the journal's size is known.
      const expected = LEAST_HELD_BYTES + (await store.journalSize(ref));
      await share.take(expected, attempt.signal);
      const lost = lost_ms > 0 ? { lost_s: lost_ms / 1000 } : {};
      const claimed = await store.claim(ref, { attempt: number, ...lost, ...by });
      const journal = counted(claimed, { share, expected, signal: attempt.signal });
      try {
        const { trajectory } = journal;
        if (trajectory.end === null) {
          const hold = { ...attempt, journal, ref };
          attempt.isAt(() => placeIn(trajectory));
          await play?.(hold);
          const reached = naturalEnd(trajectory);
          const end =
            reached === null
              ? (otherwise?.(trajectory) ?? null)
              : { stop_reason: reached, failure: null };
          if (end !== null) await endRollout(hold, { ...dependencies, ...end });
        }
        await journal.commit();
        return trajectory;
      } finally {
        await journal.release();
      }
    }),
  );
}

/**
 * Growth beyond the share does not wait; the next taker does. Who has lost the journal learns it from its next line, so
 * that no engine or environment works for it any longer: its workflow waits for it no more.
 */
function counted(
  journal: Journal,
  { share, expected, signal }: { share: Share; expected: number; signal: AbortSignal },
): Journal {
  let taken = expected;
  return {
    ...journal,
    append: async (entry) => {
      await journal.append(entry);
      await journal.stillOurs();
      const more = Math.max(0, journal.held() - taken);
      taken += more;
      await share.take(more, signal);
    },
  };
}

/** An activity that continues an opened rollout. */
export function playOpened(
  dependencies: Dependencies,
  { activity, play }: { activity: keyof Activities; play: (hold: Hold) => Promise<void> },
): (at: TurnRef) => Promise<TurnProgress> {
  return ({ batch_id, row, repeat, limits }) =>
    dependencies.attempt(async (attempt) => {
      const ref = { batch_id, row, repeat };
      await checkAgentIsThere(ref, { ...dependencies, ...attempt });
      const by = { activity, ...(limits !== undefined && { limits }) };
      const started = async (hold: Hold): Promise<void> => {
        if (hold.journal.trajectory.start === null)
          throw journalLost(ref, { lacks: 'its start', store: dependencies.store });
        await underChangingLimits(hold, { ...dependencies, play });
      };
      return progressOf(
        await playFromJournal({ ...attempt, ref, by, play: started }, dependencies),
      );
    });
}
