import { createCloseBatch, createCloseSlice, createFoldGroups } from './close/closing.js';
import type { AllActivities } from './contract/stream.js';
import type { Dependencies } from './dependencies.js';
import { createFinishRollout } from './close/finish-rollout.js';
import { createSetLimits } from './limits/set-limits.js';
import { createGenerateTurn } from './turn/generate-turn.js';
import { createAbandonTransfer } from './policy/abandon-transfer.js';
import { createAttachCheckpoint } from './policy/attach-checkpoint.js';
import { createBeginTransfer } from './policy/begin-transfer.js';
import { createConcludePublish, createSettlePublish } from './policy/settle-publish.js';
import { createFinishTransfer } from './policy/finish-transfer.js';
import { createChangeReplicas, createSurveyReplicas } from './policy/change-replicas.js';
import { createReleaseHolder } from './policy/release-holder.js';
import { createSleepEngines, createWakeEngines } from './policy/sleep-engines.js';
import { createUpdateReplica } from './policy/update-replica.js';
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
    settlePublish: createSettlePublish(dependencies),
    updateReplica: createUpdateReplica(dependencies),
    concludePublish: createConcludePublish(dependencies),
    beginTransfer: createBeginTransfer(dependencies),
    finishTransfer: createFinishTransfer(dependencies),
    abandonTransfer: createAbandonTransfer(dependencies),
    attachCheckpoint: createAttachCheckpoint(dependencies),
    releaseHolder: createReleaseHolder(dependencies),
    sleepEngines: createSleepEngines(dependencies),
    wakeEngines: createWakeEngines(dependencies),
    surveyReplicas: createSurveyReplicas(dependencies),
    changeReplicas: createChangeReplicas(dependencies),
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
