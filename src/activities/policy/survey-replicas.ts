import { withReplicas } from '../../model/policy/record.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies } from '../dependencies.js';
import { policyOf, viewOf } from './policy-view.js';

/** An update is one activity a replica: its beats cost little, and an engine may be paused meanwhile. */
const MOST_HEARTBEAT_MS = 10_000;

export function createSurveyReplicas(
  dependencies: Dependencies,
): PolicyActivities['surveyReplicas'] {
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
      const heartbeat_timeout_ms = Math.min(
        MOST_HEARTBEAT_MS,
        dependencies.deployment.heartbeat_timeout_ms,
      );
      return { heartbeat_timeout_ms, view: record && viewOf(record) };
    });
}
