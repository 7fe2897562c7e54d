import { closeBatch, closeSlice, foldGroups } from './close/closing.js';
import { finishRollout } from './close/finish-rollout.js';
import type { AllActivities } from './contract/stream.js';
import type { Body, Running, WorkerDependencies } from './dependencies.js';
import { setLimits } from './limits/set-limits.js';
import { lookAtRollouts } from './look/look-at-rollouts.js';
import { findInputs } from './plan/inputs.js';
import { planBatch } from './plan/plan-batch.js';
import { bringReplica } from './policy/bring-replica.js';
import { takeOrder } from './policy/take-order.js';
import { openRollout } from './start/open-rollout.js';
import { closeStep } from './stream/close-step.js';
import { planStream } from './stream/plan-stream.js';
import { admitGroups, dropGroups, endGroup, forgetSteps, putStep } from './stream/put-facts.js';
import { watchServed } from './stream/watch-served.js';
import { generateTurn } from './turn/generate-turn.js';
import { playTurns } from './turn/play-turns.js';
import { stepEnvironment } from './turn/step-environment.js';

const BODIES: { [Name in keyof AllActivities]: Body<Name> } = {
  ...{ planBatch, findInputs, closeBatch, closeSlice, foldGroups, lookAtRollouts, setLimits },
  ...{ openRollout, playTurns, generateTurn, stepEnvironment, finishRollout },
  ...{ planStream, admitGroups, endGroup, dropGroups, putStep, closeStep, forgetSteps },
  ...{ watchServed, takeOrder, bringReplica },
};

/** All activities over the same dependencies. A worker registers those of its role. */
export function createActivities(dependencies: WorkerDependencies): AllActivities {
  const activities = Object.entries(BODIES).map(([name, body]) => {
    const play = body as (input: unknown[], running: Running) => Promise<unknown>;
    const activity = (...input: unknown[]): Promise<unknown> =>
      dependencies.attempt((attempt) => play(input, { ...dependencies, attempt }));
    return [name, activity];
  });
  return Object.fromEntries(activities) as AllActivities;
}
