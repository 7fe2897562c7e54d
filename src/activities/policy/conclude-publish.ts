import { concluded } from '../../model/policy/record.js';
import { holders, neededOf } from '../../model/workflow-safe/policy.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';
import { policyOf } from './policy-view.js';

export function createConcludePublish(
  dependencies: Dependencies,
): PolicyActivities['concludePublish'] {
  return ({ service, ...rule }) =>
    dependencies.attempt(async () => {
      const { records } = policyOf(service, dependencies);
      const record = await records.change((before) => {
        if (before === null || before.target === null || before.version === before.target)
          return null;
        const view = viewOf(before);
        const has = holders(view, before.target);
        return has > 0 && has >= neededOf(view, rule) ? concluded(before) : null;
      });
      return viewOf(record);
    });
}
