import { continueAsNew } from '@temporalio/workflow';
import type { PublishPlan, PublishResult } from '../activities/contract/policy.js';
import { lacking, mayReach } from '../model/workflow-safe/policy.js';
import {
  concludePublish,
  settlePublish,
  surveyReplicas,
  updateReplica,
} from './activity-options.js';
import { inLanes } from './policy/in-lanes.js';
import { checkPolicyInput } from './steering/input-checks.js';
import { restore } from './policy/restore.js';
import { failWith, failureOf } from './ending.js';
import { watchHistory } from './long-history.js';
import { handlePublishUpdates } from './policy/publish-updates.js';
import type { ShownPolicy } from './policy/policy-view.js';
import { showPolicy } from './policy/policy-view.js';

/**
 * What a generation service serves: weights under a version that only grows. The workflow lives as long as the service.
 * The record in the store is the truth, so a lost database or a terminated workflow costs no replica.
 */
export async function policy(input: unknown): Promise<never> {
  const { service, updates = [] } = checkPolicyInput(input);
  const shown = showPolicy(service, updates);
  const publishes = handlePublishUpdates();
  const history = watchHistory();
  for (;;) {
    // 1. Replicas that do not serve get `version` again, until the next publish.
    const survey = await surveyReplicas({ service });
    shown.recorded(survey.view);
    const heartbeat_ms = survey.heartbeat_timeout_ms;
    const restoring = restore(survey, { service, shown });
    await publishes.news(() => history.isLong());
    await restoring.stop();
    // 2. Updates, one after the other.
    const next = publishes.next();
    if (next !== null)
      await next.answer(() => publish(next.input, { service, heartbeat_ms, shown }));
    else if (history.isLong()) await continueAsNew<typeof policy>(shown.forNextRun());
  }
}

interface Serving {
  service: string;
  /** From the deployment. */
  heartbeat_ms: number;
  shown: ShownPolicy;
}

/**
 * Refuses the update before it touches anything. Otherwise each replica goes through its phases, and a quorum decides.
 */
async function publish(
  input: unknown,
  { service, heartbeat_ms, shown }: Serving,
): Promise<PublishResult> {
  const began = Date.now();
  const plan = await settlePublish({ service, publish: input });
  shown.recorded(plan.view);
  const { paused_s, faults } = await updateAll(plan, { service, heartbeat_ms, shown });
  const { version, quorum, at_once, notes } = plan;
  const view = await concludePublish({ service, quorum, at_once });
  shown.recorded(view);
  const total_s = (Date.now() - began) / 1000;
  const isReached = view.version === version;
  const fault = isReached ? null : Object.values(faults).join('; ');
  shown.published({ version, at: began, paused_s, total_s, fault });
  if (fault !== null) {
    const back =
      view.version === null
        ? `no replica serves until a version above ${version} loads`
        : `${view.version} stays the version`;
    const message = `version ${version} was not reached, ${back}: ${fault}`;
    throw failWith({ type: 'PolicyUpdateFailed', message });
  }
  const replicas = Object.entries(view.replicas).map(([url, { state, fault: why }]) => {
    const said = faults[url] ?? why;
    return [url, { state, ...(said !== null && { fault: said }) }] as const;
  });
  return {
    version,
    replicas: Object.fromEntries(replicas),
    paused_s,
    total_s,
    ...(notes.length > 0 && { notes }),
  };
}

/** If the quorum is out of reach, untouched replicas keep what they serve. */
async function updateAll(
  { view, version, quorum, at_once, mode, drain_limit }: PublishPlan,
  { service, heartbeat_ms, shown }: Serving,
): Promise<{ paused_s: number; faults: Record<string, string> }> {
  const faults: Record<string, string> = {};
  let paused_s = 0;
  await inLanes(lacking(view, version), {
    at_once,
    goesOn: () => mayReach(view, { quorum, failed: Object.keys(faults).length }),
    run: async (replica) => {
      try {
        const updated = await updateReplica(
          { service, replica, version, mode, drain_limit },
          heartbeat_ms,
        );
        paused_s = Math.max(paused_s, updated.paused_s);
        shown.recorded(updated.view);
      } catch (error) {
        faults[replica] = failureOf(error).message;
      }
    },
  });
  return { paused_s, faults };
}
