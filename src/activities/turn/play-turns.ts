import { nextStep, type NextStep } from '../../model/turn/stop-rules.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { runProgram } from '../agent/run-program.js';
import type { Dependencies } from '../dependencies.js';
import { generate } from './generate-turn.js';
import type { Playing } from '../playing.js';
import { playOpened } from '../play-from-journal.js';
import { step } from './step-environment.js';

const PLAY = { generate, step, run: runProgram };

/** The environment that verifies a program has an activity of its own, maybe on another machine. */
const isElsewhere = (next: NextStep, { start }: Trajectory): boolean =>
  next === 'step' && (start?.program?.verify ?? null) !== null;

/** A power cut costs no turn that had ended so long ago. A sync of each turn would be most of what disks write. */
const SYNC_EVERY_MS = 10_000;

/** Until the rollout's end, or the end of a turn after the slice. An agent's life is the whole rollout. */
export async function playSlice(playing: Playing, dependencies: Dependencies): Promise<void> {
  const { trajectory } = playing.journal;
  const endsHere = sliceOf(playing, dependencies);
  let next = nextStep(trajectory);
  while (typeof next !== 'object' && !isElsewhere(next, trajectory)) {
    await PLAY[next](playing, dependencies);
    // An earlier attempt may have said that it waits, and this one may play for minutes.
    await playing.reportWaiting(null);
    next = nextStep(trajectory);
    if (next === 'generate' && (await endsHere())) return;
  }
}

/** Plays turn after turn, on from where another activity has left the rollout. */
export const playTurns = playOpened('playTurns', playSlice);

/** To be asked between two turns: whether the slice is over. Syncs from time to time. */
function sliceOf(
  { journal, isCrowded }: Playing,
  { deployment: { turn_slice_ms } }: Dependencies,
): () => Promise<boolean> {
  const began = performance.now();
  let synced = began;
  return async () => {
    const now = performance.now();
    const slice_ms = isCrowded() ? Math.min(turn_slice_ms, CROWDED_SLICE_MS) : turn_slice_ms;
    if (now - began >= slice_ms) return true;
    if (now - synced >= SYNC_EVERY_MS) {
      synced = now;
      await journal.sync();
    }
    return false;
  };
}

/**
 * A slice costs some 15 ms of CPU, a hundredth of this, and who waits for a slot waits no longer than this and the turn
 * in progress.
 */
export const CROWDED_SLICE_MS = 2000;
