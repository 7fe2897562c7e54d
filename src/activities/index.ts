import { createCloseBatch, createCloseSlice, createFoldGroups } from './close/closing.js';
import { createBringReplica } from './policy/bring-replica.js';
import { createTakeOrder } from './policy/take-order.js';
import type { AllActivities } from './contract/stream.js';
import type { Dependencies } from './dependencies.js';
import { createFinishRollout } from './close/finish-rollout.js';
import { createSetLimits } from './limits/set-limits.js';
import { createGenerateTurn } from './turn/generate-turn.js';
import { createFindInputs } from './plan/inputs.js';
import { createPlanBatch } from './plan/plan-batch.js';
import { createLookAtRollouts } from './look/look-at-rollouts.js';
import { createPlayTurns } from './turn/play-turns.js';
import { createOpenRollout } from './start/open-rollout.js';
import { createCloseStep } from './stream/close-step.js';
import {
  createForgetSteps,
  createPutStep,
  createAdmitGroups,
  createDropGroups,
  createEndGroup,
} from './stream/put-facts.js';
import { createPlanStream } from './stream/plan-stream.js';
import { createWatchServed } from './stream/watch-served.js';
import { createStepEnvironment } from './turn/step-environment.js';

/** All activities over the same dependencies. A worker registers those of its role. */
export function createActivities(dependencies: Dependencies): AllActivities {
  return {
    planBatch: createPlanBatch(dependencies),
    findInputs: createFindInputs(dependencies),
    openRollout: createOpenRollout(dependencies),
    playTurns: createPlayTurns(dependencies),
    generateTurn: createGenerateTurn(dependencies),
    stepEnvironment: createStepEnvironment(dependencies),
    finishRollout: createFinishRollout(dependencies),
    setLimits: createSetLimits(dependencies),
    closeBatch: createCloseBatch(dependencies),
    closeSlice: createCloseSlice(dependencies),
    lookAtRollouts: createLookAtRollouts(dependencies),
    foldGroups: createFoldGroups(dependencies),
    takeOrder: createTakeOrder(dependencies),
    bringReplica: createBringReplica(dependencies),
    planStream: createPlanStream(dependencies),
    admitGroups: createAdmitGroups(dependencies),
    endGroup: createEndGroup(dependencies),
    dropGroups: createDropGroups(dependencies),
    putStep: createPutStep(dependencies),
    closeStep: createCloseStep(dependencies),
    forgetSteps: createForgetSteps(dependencies),
    watchServed: createWatchServed(dependencies),
  };
}
