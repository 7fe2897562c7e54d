import type { Attempt } from '../../src/activities/attempt.js';
import { attemptOf } from './attempt.js';
import type { WorkerDependencies } from '../../src/activities/dependencies.js';
import { createActivities } from '../../src/activities/index.js';
import type { AllActivities } from '../../src/activities/contract/stream.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';

/** What a stream does with its store, without Temporal, engine and environment. */
export function stepActivities(
  store: TrajectoryStore,
  { warn }: { warn: (message: string) => void },
): AllActivities {
  const { signal } = new AbortController();
  const attempt = attemptOf({ signal, warn });
  return createActivities({
    store,
    environment: () => undefined,
    endOf: () => Promise.resolve(null),
    attempt: (run: (attempt: Attempt) => unknown) => run(attempt),
  } as unknown as WorkerDependencies);
}
