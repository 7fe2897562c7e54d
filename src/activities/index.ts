import { createCloseBatch, createCloseSlice } from './close-batch.js';
import type { Activities } from './contract.js';
import type { Dependencies } from './dependencies.js';
import { createFinishRollout } from './finish-rollout.js';
import { createGenerateTurn } from './generate-turn.js';
import { createPlanBatch } from './plan-batch.js';
import { createPlayTurns } from './play-turns.js';
import { createRunAgent } from './run-agent.js';
import { createStartRollout } from './start-rollout.js';
import { createStepEnvironment } from './step-environment.js';

/** All activities, over the same dependencies. A worker registers those of its role. */
export function createActivities(dependencies: Dependencies): Activities {
  return {
    planBatch: createPlanBatch(dependencies),
    startRollout: createStartRollout(dependencies),
    playTurns: createPlayTurns(dependencies),
    generateTurn: createGenerateTurn(dependencies),
    stepEnvironment: createStepEnvironment(dependencies),
    runAgent: createRunAgent(dependencies),
    finishRollout: createFinishRollout(dependencies),
    closeBatch: createCloseBatch(dependencies),
    closeSlice: createCloseSlice(dependencies),
  };
}
