import { withReplicas } from '../../model/policy/record.js';
import { withoutOverdue } from '../../model/policy/replicas.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';
import { policyOf } from './policy-view.js';

/** An update is one activity a replica: its beats cost little, and an engine may be paused meanwhile. */
const MOST_HEARTBEAT_MS = 10_000;

export function createSurveyReplicas(
  dependencies: Dependencies,
): PolicyActivities['surveyReplicas'] {
  return ({ service }) =>
    dependencies.attempt(async () => {
      const { records, urls, forget_after_ms } = policyOf(service, dependencies);
      const record = await records.change((before) => {
        if (before === null) return null;
        const named = withReplicas(before, urls);
        const next = withoutOverdue(named, { at: commonMs(), forget_after_ms });
        return next === before ? null : next;
      });
      const heartbeat_timeout_ms = Math.min(
        MOST_HEARTBEAT_MS,
        dependencies.deployment.heartbeat_timeout_ms,
      );
      return { heartbeat_timeout_ms, view: record && viewOf(record) };
    });
}
