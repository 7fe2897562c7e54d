import { naturalEnd } from '../model/turn/stop-rules.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import type { Claimant, Journal } from '../trajectories/trajectory-store.js';
import { checkAgentIsThere } from './agent/run-agent.js';
import type { RolloutEnd } from './close/end-rollout.js';
import { endRollout } from './close/end-rollout.js';
import type { Activities, TurnProgress, TurnRef } from './contract.js';
import type { Dependencies } from './dependencies.js';
import type { Playing } from './playing.js';
import { journalLost } from './playing.js';
import type { Lease } from './lease.js';
import { withLease } from './lease.js';
import { placeIn, progressOf } from './report.js';

/** Minimum share for a journal's fold. */
const LEAST_FOLD_BYTES = 16_384;

export interface Play {
  /** The activity under which the attempt claims the journal. */
  by: Claimant;
  /** Plays on from where the journal is. Not called for a rollout that has ended. */
  play: (playing: Playing) => Promise<void>;
  /** The end of a rollout whose turns have reached none; null: it continues. */
  otherwise?: (trajectory: Trajectory) => RolloutEnd | null;
}

/**
 * The frame of every activity that plays or ends a rollout: claim the journal, play on from where it is, write the end,
 * make everything durable. The journal takes precedence: first an existing end, then one that the turns have reached,
 * then the caller's reason. Returns the resulting trajectory.
 */
export async function playFromJournal(
  lease: Lease,
  { by, play, otherwise, ...dependencies }: Play & Dependencies,
): Promise<Trajectory> {
  const { store } = dependencies;
  const { ref, number, lost_ms } = lease;
  // Before the fold, only the journal's size is known.
  const expected = LEAST_FOLD_BYTES + (await store.journalSize(ref));
  await lease.memory.take(expected, lease.signal);
  const lost = lost_ms > 0 ? { lost_s: lost_ms / 1000 } : {};
  const claimed = await store.claim(ref, { attempt: number, ...lost, ...by });
  const journal = takingGrowthWhileOurs(claimed, { lease, expected });
  try {
    const { trajectory } = journal;
    if (trajectory.end === null) {
      const playing = { ...lease, journal };
      const unfollow = lease.follows(journal);
      lease.isAt(() => placeIn(trajectory));
      await play(playing).finally(unfollow);
      const reached = naturalEnd(trajectory);
      const end =
        reached === null
          ? (otherwise?.(trajectory) ?? null)
          : { stop_reason: reached, failure: null };
      if (end !== null) await endRollout(playing, { ...dependencies, ...end });
    }
    await journal.commit();
    return trajectory;
  } finally {
    await journal.release();
  }
}

/**
 * The journal with two steps behind each append: it checks that the journal is still ours, and takes what the journal
 * has grown by from the share of memory. Who has lost the journal learns it from its next line, so that no engine or
 * environment works for it any longer: its workflow waits for it no more. Growth beyond the share does not wait; the
 * next taker does.
 */
function takingGrowthWhileOurs(
  journal: Journal,
  { lease: { memory, signal }, expected }: { lease: Lease; expected: number },
): Journal {
  let taken = expected;
  return {
    ...journal,
    append: async (entry) => {
      await journal.append(entry);
      await journal.stillOurs();
      const more = Math.max(0, journal.takenBytes() - taken);
      taken += more;
      await memory.take(more, signal);
    },
  };
}

/** An activity that continues an opened rollout. */
export function playOpened(
  dependencies: Dependencies,
  { activity, play }: { activity: keyof Activities; play: (playing: Playing) => Promise<void> },
): (at: TurnRef) => Promise<TurnProgress> {
  return ({ batch_id, row, repeat, limits }) =>
    dependencies.attempt((attempt) =>
      withLease({ ...dependencies, attempt, ref: { batch_id, row, repeat } }, async (lease) => {
        const { ref } = lease;
        await checkAgentIsThere(ref, { ...dependencies, ...lease });
        const by = { activity, ...(limits !== undefined && { limits }) };
        const started = async (playing: Playing): Promise<void> => {
          if (playing.journal.trajectory.start === null)
            throw journalLost(ref, { lacks: 'its start', store: dependencies.store });
          await play(playing);
        };
        return progressOf(await playFromJournal(lease, { ...dependencies, by, play: started }));
      }),
    );
}
