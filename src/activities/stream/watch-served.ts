import { setTimeout as sleep } from 'node:timers/promises';
import { servedOf } from '../../model/workflow-safe/stream/state.js';
import type { Served, StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import { policyOf, viewOf } from '../policy/policy-view.js';

/** Reading an unchanged record is one `stat`. */
const LOOK_EVERY_MS = 250;
/** Then the workflow asks again, so that a draining worker is not held up for long. */
const WATCH_MS = 5 * 60_000;

export function createWatchServed(dependencies: Dependencies): StreamActivities['watchServed'] {
  return ({ service, known }) =>
    dependencies.attempt(async ({ signal }) => {
      for (const end = performance.now() + WATCH_MS; ;) {
        const now = await servedNow(service, { known, dependencies });
        const isNews = now.served !== known.served || now.is_published !== known.is_published;
        if (isNews || performance.now() > end) return now;
        await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
        signal.throwIfAborted();
      }
    });
}

/** From the record of the service's policy; without one the known version stays. */
export async function servedNow(
  service: string,
  { known, dependencies }: { known: Pick<Served, 'served'>; dependencies: Dependencies },
): Promise<Served> {
  const record = await policyOf(service, dependencies).records.latest();
  if (record === null) return { served: known.served, is_published: false };
  return { served: servedOf(known, { policy: viewOf(record), given: null }), is_published: true };
}
