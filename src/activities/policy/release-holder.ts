import { Release } from '../../model/policy/holder.js';
import { refusalOfRelease, released } from '../../model/policy/holding.js';
import { refusalWhileOpen } from '../../model/policy/tickets.js';
import { viewOf } from '../../model/policy/view.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies } from '../dependencies.js';
import { inputOf, policyOf, refused } from './policy-view.js';

/** Ends a hold in the record. */
export function createReleaseHolder(dependencies: Dependencies): PolicyActivities['releaseHolder'] {
  return ({ service, release: input }) =>
    dependencies.attempt(async () => {
      const { records } = policyOf(service, dependencies);
      const release = inputOf('release', { schema: Release, input });
      const record = await records.change((now) => {
        const refusal = refusalOfRelease(now, release) ?? refusalWhileOpen(now);
        if (refusal !== null) throw refused(refusal);
        return now === null || now.holding.hold === null ? null : released(now);
      });
      return viewOf(record);
    });
}
