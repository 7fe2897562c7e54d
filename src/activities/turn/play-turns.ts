import { nextStep } from '../../model/turn/stop-rules.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { generate } from '../generate/generate-turn.js';
import { playFromJournal } from './play-from-journal.js';
import { step } from './step-environment.js';

/**
 * Turns of an environment that is in process: many fast ones in one activity, a slow one alone. Stops at the end of
 * the rollout, or at the first end of a turn after the turn slice.
 */
export function createPlayTurns(dependencies: Dependencies): Activities['playTurns'] {
  const { turn_slice_ms } = dependencies.deployment;
  return playFromJournal(dependencies, {
    activity: 'playTurns',
    play: async (hold) => {
      const { trajectory } = hold.journal;
      const sliceEnd = performance.now() + turn_slice_ms;
      do {
        if (nextStep(trajectory) === 'generate') await generate(hold, dependencies);
        if (nextStep(trajectory) === 'step') await step(hold, dependencies);
      } while (nextStep(trajectory) === 'generate' && performance.now() < sliceEnd);
    },
  });
}
