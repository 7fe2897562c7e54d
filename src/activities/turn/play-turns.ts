import { nextStep } from '../../model/turn/stop-rules.js';
import { runAgent } from '../agent/run-agent.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { generate } from './generate-turn.js';
import type { Hold } from '../hold.js';
import { playOpened } from '../play-from-journal.js';
import { step } from './step-environment.js';

/** Plays many fast turns in one activity, or one slow one. */
export function createPlayTurns(dependencies: Dependencies): Activities['playTurns'] {
  return playOpened(dependencies, {
    activity: 'playTurns',
    play: (hold) => playSlice(hold, dependencies),
  });
}

const PLAY = { generate, step, run: runAgent };

/** Until the rollout's end, or the first end of a turn after the turn slice. An agent's run is the whole rollout. */
export async function playSlice(hold: Hold, dependencies: Dependencies): Promise<void> {
  const { trajectory } = hold.journal;
  const sliceEnd = performance.now() + dependencies.deployment.turn_slice_ms;
  let next = nextStep(trajectory);
  do {
    if (typeof next === 'object') return;
    await PLAY[next](hold, dependencies);
    next = nextStep(trajectory);
  } while (next !== 'generate' || performance.now() < sliceEnd);
}
