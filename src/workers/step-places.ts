import type { DeployedEnvironment } from '../activities/dependencies.js';
import { createSharedLine } from '../generation/replicas/shares.js';

/** The places at an environment, for this process. Batches and streams share them as they share those at an engine. */
export function createStepPlaces(most: number): DeployedEnvironment['inPlace'] {
  let taken = 0;
  const line = createSharedLine(() => (taken < most ? (taken += 1) : null));
  return async ({ sharer, session_id, signal }, run) => {
    await line.join({ session_id, sharer }, signal);
    try {
      return await run();
    } finally {
      taken -= 1;
      line.givesBack(sharer);
    }
  };
}

/** For steps in this process, of which it plays one at a time anyway. */
export const unlimited: DeployedEnvironment['inPlace'] = (_, run) => run();
