import type { Trajectory } from '../../model/journal/trajectory.js';
import type { LimitsChange, TurnLimits } from '../../model/workflow-safe/limits.js';
import { turnLimitsOf } from '../../model/workflow-safe/limits.js';
import { withController } from '../../platform/waits/abort.js';
import type { Dependencies } from '../dependencies.js';
import type { Hold } from '../hold.js';

/**
 * Plays under limits that may change meanwhile. A change becomes a claim of the journal's owner, as if the next attempt
 * brought it: the next turn has it, and so has the room of the answer in progress. Who is silent and has lost the
 * journal ends within seconds where it can be seen, else with the next heartbeat.
 */
export async function underChangingLimits(
  hold: Hold,
  { limits, play }: Pick<Dependencies, 'limits'> & { play: (hold: Hold) => Promise<void> },
): Promise<void> {
  const { journal, ref } = hold;
  const change = (to: LimitsChange): void => {
    const news = newTurnLimits(journal.trajectory, to);
    if (news === null) return;
    const claim = { kind: 'claim', activity: 'setLimits', attempt: 1, reopen: false } as const;
    // A line that cannot be written is tried again in a second, unless the attempt ends of the same.
    void journal.append({ ...claim, limits: news }).catch(() => undefined);
  };
  await withController(hold.signal, async (controller) => {
    const looks = (): void => {
      journal.stillOurs().catch((error: unknown) => {
        controller.abort(error);
      });
    };
    const leave = limits.follow(ref, { changed: change, looks });
    try {
      await play({ ...hold, signal: controller.signal });
    } finally {
      leave();
    }
  });
}

/** Those that are not in force; null: all are. */
function newTurnLimits(
  { settings_in_force: settings, limits, end }: Trajectory,
  change: LimitsChange,
): TurnLimits | null {
  if (end !== null) return null;
  const now: TurnLimits =
    settings === null
      ? { ...limits }
      : { ...settings, max_new_tokens: settings.generation.max_new_tokens };
  const differing = Object.entries(turnLimitsOf(change) ?? {}).filter(
    ([name, value]) => now[name as keyof TurnLimits] !== value,
  );
  return differing.length === 0 ? null : Object.fromEntries(differing);
}
