import { Wake } from '../../model/policy/sleep.js';
import { repairOf, sleepersOf, withoutSleep } from '../../model/policy/sleepers.js';
import { textOfFaults } from '../../model/workflow-safe/policy.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';
import { faultsOf, textsOf } from './ask-all.js';
import { viewOf } from '../../model/policy/view.js';
import { inputOf, knownControl, policyOf, refused } from './policy-view.js';

const WAKE_MS = 300_000;

/** Ends a sleep in the record; engines are then woken as they are restored. Or gives them memory for weights alone. */
export function createWakeEngines(dependencies: Dependencies): PolicyActivities['wakeEngines'] {
  return ({ service, ...given }) =>
    dependencies.attempt(async ({ signal }) => {
      const policy = policyOf(service, dependencies);
      const { tags } =
        'why' in given ? { tags: null } : inputOf('wake', { schema: Wake, input: given.wake });
      if (tags?.every((tag) => tag === 'weights') === true) {
        await giveMemory(policy, signal);
        return { repair: null, view: viewOf(await policy.records.latest()) };
      }
      const record = await policy.records.change((now) => {
        if (now === null || now.sleep === null) return null;
        // Another `sleep` may have extended the time.
        if ('nonce' in given && now.sleep.nonce !== given.nonce) return null;
        return withoutSleep(now, 'why' in given ? given.why : '`wake`');
      });
      return { repair: repairOf(record, { version: record?.target }), view: viewOf(record) };
    });
}

async function giveMemory(policy: PolicyService, signal: AbortSignal): Promise<void> {
  const record = await policy.records.latest();
  const run = async ({ url }: { url: string }): Promise<void> => {
    await knownControl(policy, url)?.wakeUp('weights', { within_ms: WAKE_MS, signal });
  };
  const faults = textsOf(
    await faultsOf(record === null ? [] : sleepersOf(record), { run, signal }),
  );
  if (Object.keys(faults).length > 0) throw refused(textOfFaults(faults));
}
