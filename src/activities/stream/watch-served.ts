import { setTimeout as sleep } from 'node:timers/promises';
import type { PolicyView } from '../../model/workflow-safe/policy.js';
import { whyNothingServes } from '../../model/workflow-safe/policy.js';
import { lowestServed, servedOf } from '../../model/workflow-safe/stream/state.js';
import type { Waiting } from '../../model/workflow-safe/waiting.js';
import { timeText } from '../../model/workflow-safe/waiting.js';
import type { Served, StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import { policyOf, viewOf } from '../policy/policy-view.js';
import { commonMs } from '../../platform/waits/common-clock.js';

/** Reading an unchanged record is one `stat`. */
const LOOK_EVERY_MS = 250;
/** Then the workflow asks again, so that a draining worker is not held up for long. */
const WATCH_MS = 5 * 60_000;

export function createWatchServed(dependencies: Dependencies): StreamActivities['watchServed'] {
  return ({ service, known, at_once = false }) =>
    dependencies.attempt(async ({ signal }) => {
      for (const end = performance.now() + WATCH_MS; ;) {
        const now = await servedNow(service, { known, dependencies });
        if (at_once || isNews(now, known) || performance.now() > end) return now;
        await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
        signal.throwIfAborted();
      }
    });
}

const isNews = (now: Served, known: Served): boolean =>
  now.served !== known.served ||
  (now.born ?? null) !== (known.born ?? null) ||
  (now.target ?? null) !== (known.target ?? null) ||
  now.is_published !== known.is_published ||
  now.waiting?.message !== known.waiting?.message;

/** From the record of the service's policy; without one the known version stays. */
export async function servedNow(
  service: string,
  {
    known,
    dependencies,
  }: { known: Pick<Served, 'served' | 'waiting'>; dependencies: Dependencies },
): Promise<Served> {
  const record = await policyOf(service, dependencies).records.latest();
  if (record === null) return { served: known.served, is_published: false };
  const policy = viewOf(record);
  return {
    served: servedOf(known, { policy, given: null }),
    is_published: true,
    born: lowestServed(policy),
    target: policy.target,
    waiting: waitingFor(service, { policy, before: known.waiting ?? null }),
  };
}

/** The version at which a group is born that is admitted now; null: nobody knows. */
export async function birthNow(
  service: string | null,
  { given, dependencies }: { given: number | null; dependencies: Dependencies },
): Promise<number | null> {
  if (service === null) return given;
  const record = await policyOf(service, dependencies).records.latest();
  return record === null ? given : lowestServed(viewOf(record));
}

/** A load that is under way changes nothing: it may be one of many tries. */
function waitingFor(
  service: string,
  { policy, before }: { policy: PolicyView; before: Waiting | null },
): Waiting | null {
  const message = whyNothingServes(policy);
  if (message === null) return null;
  if (Object.values(policy.replicas).some(({ state }) => state === 'updating')) return before;
  const since = before?.since ?? timeText(commonMs() / 1000);
  return { service: `policy ${service}`, message, since };
}
