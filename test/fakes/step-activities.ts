import type { Attempt } from '../../src/activities/attempt.js';
import { attemptOf } from './attempt.js';
import type { Dependencies } from '../../src/activities/dependencies.js';
import { createCloseStep } from '../../src/activities/stream/close-step.js';
import {
  createForgetSteps,
  createPutStep,
  createAdmitGroups,
  createEndGroup,
} from '../../src/activities/stream/put-facts.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';

/** What a stream does with its store, without Temporal, engine and environment. */
export function stepActivities(
  store: TrajectoryStore,
  { warn }: { warn: (message: string) => void },
) {
  const { signal } = new AbortController();
  const attempt = attemptOf({ signal, warn });
  const dependencies = {
    store,
    environment: () => undefined,
    endOf: () => Promise.resolve(null),
    attempt: (run: (attempt: Attempt) => unknown) => run(attempt),
  } as unknown as Dependencies;
  return {
    admitGroups: createAdmitGroups(dependencies),
    endGroup: createEndGroup(dependencies),
    putStep: createPutStep(dependencies),
    closeStep: createCloseStep(dependencies),
    forgetSteps: createForgetSteps(dependencies),
  };
}
