import { lastWordsOf } from '../model/journal/last-words.js';
import { glanceOf, type Outcome } from '../model/journal/outcome.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import { totalsOf } from '../model/journal/trajectory.js';
import { naturalEnd } from '../model/turn/stop-rules.js';
import type { Claimant, Journal } from '../trajectories/trajectory-store.js';
import { checkAgentIsThere, runOf, stopped } from './agent/open-life.js';
import type { TurnActivity } from './contract.js';
import type { Body, Dependencies } from './dependencies.js';
import type { Playing } from './playing.js';
import { journalLost } from './playing.js';
import type { Lease } from './lease.js';
import { withLease } from './lease.js';
import { placeIn, progressOf } from './report.js';
import { endSessionOf } from './turn/session.js';

const LEAST_FOLD_BYTES = 16_384;

export interface Play {
  /** The activity under which the attempt claims the journal. */
  by: Claimant;
  /** Plays on from where the journal is. Not called for a rollout that has ended. */
  play: (playing: Playing) => Promise<void>;
  /** The end of a rollout whose turns have reached none; null: it continues. */
  otherwise?: (trajectory: Trajectory) => Outcome | null;
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

/** Writes a rollout's end, after its session is over, and its program, which has nothing left to play for. */
async function endRollout(
  playing: Playing,
  { stop_reason, failure, ...dependencies }: Outcome & Dependencies,
): Promise<void> {
  const { journal, ref, signal } = playing;
  const { trajectory } = journal;
  const { program } =
    dependencies.environment(trajectory.start?.task_name ?? '')?.environment ?? {};
  const last = trajectory.lives.at(-1);
  if (last?.exit === null && program !== undefined)
    await stopped(program, { run: runOf(ref, last.line.life), signal });
  await endSessionOf(playing, dependencies);
  const glance = { ...glanceOf(trajectory), last_words: lastWordsOf(trajectory) };
  const summary = { totals: totalsOf(trajectory), failure, glance };
  await journal.append({ kind: 'end', stop_reason, ...summary });
}

/**
 * The journal with two steps behind each append: it checks that the journal is still ours, and takes what the journal
 * has grown by from the share of memory. An attempt that has lost the journal learns it at its next line, so that no
 * engine or environment works for it any longer: its workflow waits for it no more. Growth beyond the share does not
 * wait; the next taker does.
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

export const playOpened =
  (
    activity: TurnActivity,
    play: (playing: Playing, dependencies: Dependencies) => Promise<void>,
  ): Body<TurnActivity> =>
  ([{ batch_id, row, repeat, limits }], running) =>
    withLease({ ...running, ref: { batch_id, row, repeat } }, async (lease) => {
      const { ref } = lease;
      await checkAgentIsThere(ref, { ...running, ...lease });
      const by = { activity, ...(limits !== undefined && { limits }) };
      const started = async (playing: Playing): Promise<void> => {
        if (playing.journal.trajectory.start === null)
          throw journalLost(ref, { lacks: 'its start', store: running.store });
        await play(playing, running);
      };
      return progressOf(await playFromJournal(lease, { ...running, by, play: started }));
    });
