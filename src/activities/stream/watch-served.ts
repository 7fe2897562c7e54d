import { setTimeout as sleep } from 'node:timers/promises';
import { servedVersion } from '../../model/policy/served.js';
import type { StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import { policyOf } from '../policy/policy-view.js';

/** A look at the record is one `stat` where nothing has changed. */
const LOOK_EVERY_MS = 250;
/** Then whoever asks asks again: a worker that is drained is not held up for long. */
const WATCH_MS = 5 * 60_000;

export function createWatchServed(dependencies: Dependencies): StreamActivities['watchServed'] {
  return ({ service, known }) =>
    dependencies.attempt(async ({ signal }) => {
      const { records } = policyOf(service, dependencies);
      for (const end = performance.now() + WATCH_MS; ;) {
        const version = servedVersion(await records.latest());
        if (version !== known || performance.now() > end) return { version };
        await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
        signal.throwIfAborted();
      }
    });
}
