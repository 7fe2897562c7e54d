import { setTimeout as sleep } from 'node:timers/promises';
import type { PolicyView, Waiting } from '../../model/results/answers.js';
import { whyNothingServes } from '../../model/workflow-safe/policy.js';
import { lowestServed, servedOf } from '../../model/workflow-safe/stream/state.js';
import { isOfTemporal, timeText } from '../../model/workflow-safe/waiting.js';
import type { Served } from '../contract/stream.js';
import type { Body, Dependencies } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';
import { policyOf } from '../policy/policy-service.js';
import { commonMs } from '../../platform/waits/common-clock.js';

/** Reading an unchanged record is one `stat`. */
const LOOK_EVERY_MS = 250;
/** Then the workflow asks again, so that a draining worker is not held up for long. */
const WATCH_MS = 5 * 60_000;

export const watchServed: Body<'watchServed'> = async ([input], dependencies) => {
  const { service, known, at_once = false } = input;
  const { signal } = dependencies.attempt;
  const queues = watchQueues(dependencies, known.waiting ?? null);
  for (const end = performance.now() + WATCH_MS; ;) {
    const served = await servedNow(service, { known, dependencies });
    const unpolled = at_once ? queues.last() : await queues.look();
    const now = unpolled === null ? served : { ...served, waiting: served.waiting ?? unpolled };
    if (at_once || isNews(now, known) || performance.now() > end) return now;
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
    signal.throwIfAborted();
  }
};

/** A question to the server for each queue. */
const LOOK_AT_QUEUES_MS = 5000;

/** Whether somebody polls the queues in which rollouts wait: their own activities could not say it. */
function watchQueues(
  { deployment, known, environment, waitOfQueue }: Dependencies,
  before: Waiting | null,
) {
  const behind = known.environments.flatMap((task) => {
    const { plays_on = true, task_queue = '' } = environment(task) ?? {};
    return plays_on ? [] : [task_queue];
  });
  const names = new Set([deployment.generation_queue, ...behind]);
  let last = before !== null && isOfTemporal(before) ? before : null;
  let looks_at = 0;
  const ask = async (): Promise<Waiting | null> => {
    for (const name of names) {
      const waiting = await waitOfQueue(name);
      if (waiting !== null) return waiting;
    }
    return null;
  };
  return {
    /** The last answer, without asking. */
    last: () => last,
    look: async (): Promise<Waiting | null> => {
      if (performance.now() < looks_at) return last;
      looks_at = performance.now() + LOOK_AT_QUEUES_MS;
      // A server that does not answer says nothing new.
      last = await ask().catch(() => last);
      return last;
    },
  };
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
    waiting: waitingFor(service, { policy, told: known.waiting ?? null }),
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
  { policy, told }: { policy: PolicyView; told: Waiting | null },
): Waiting | null {
  const message = whyNothingServes(policy);
  if (message === null) return null;
  const before = told !== null && isOfTemporal(told) ? null : told;
  if (Object.values(policy.replicas).some(({ state }) => state === 'updating')) return before;
  const since = before?.since ?? timeText(commonMs() / 1000);
  return { service: `policy ${service}`, message, since };
}
