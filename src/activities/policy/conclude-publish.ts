import { concluded, withReplicas } from '../../model/policy/record.js';
import { holders, neededOf } from '../../model/workflow-safe/policy.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { policyOf, viewOf } from './policy-view.js';

export function createConcludePublish(dependencies: Dependencies): Activities['concludePublish'] {
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

export function createSurveyReplicas(dependencies: Dependencies): Activities['surveyReplicas'] {
  return ({ service }) =>
    dependencies.attempt(async () => {
      const { records, controls } = policyOf(service, dependencies);
      const urls = controls.map(({ replica }) => replica);
      const record = await records.change((before) => {
        if (before === null) return null;
        const next = withReplicas(before, urls);
        const isSame =
          Object.keys(before.replicas).length === urls.length &&
          urls.every((url) => before.replicas[url] !== undefined);
        return isSame ? null : next;
      });
      const { heartbeat_timeout_ms } = dependencies.deployment;
      return { heartbeat_timeout_ms, view: record && viewOf(record) };
    });
}
