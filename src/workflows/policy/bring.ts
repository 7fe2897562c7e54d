import type { PolicyState, PublishPlan, PublishResult } from '../../activities/contract/policy.js';
import type { Heard } from '../../model/workflow-safe/hold.js';
import type { PolicyView } from '../../model/workflow-safe/policy.js';
import { lacking, mayReach, textOfFaults } from '../../model/workflow-safe/policy.js';
import { concludePublish, updateReplica } from '../activity-options.js';
import { failWith, failureOf } from '../ending.js';
import type { ShownPolicy } from './policy-view.js';

export interface Serving {
  service: string;
  /** From the deployment. */
  heartbeat_ms: number;
  shown: ShownPolicy;
  /** What was heard of those that bring weights. */
  heard: () => Heard;
}

/** Brings a version to the replicas that lack it; a quorum decides. */
export async function bring(
  plan: PublishPlan,
  { began, ...serving }: Omit<Serving, 'heard'> & { began: number },
): Promise<PublishResult> {
  const { service, shown } = serving;
  const { paused_s, faults } = await updateAll(plan, serving);
  const { version, quorum, at_once, notes } = plan;
  const view = await concludePublish({ service, quorum, at_once });
  return resultOf(view, { version, faults, paused_s, began, notes, shown });
}

/** If the quorum is out of reach, untouched replicas keep what they serve. */
async function updateAll(
  { view, version, quorum, at_once, mode, drain_limit }: PublishPlan,
  { service, heartbeat_ms, shown }: Omit<Serving, 'heard'>,
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

interface Brought {
  version: number;
  faults: Readonly<Record<string, string>>;
  paused_s: number;
  began: number;
  notes: string[];
  shown: ShownPolicy;
}

/** The result of an update, from the record as it left it; throws if the version was not reached. */
export function resultOf(
  view: PolicyView,
  { version, faults, paused_s, began, notes, shown }: Brought,
): PublishResult {
  shown.recorded(view);
  const total_s = (Date.now() - began) / 1000;
  const isReached = view.version === version;
  const fault = isReached ? null : textOfFaults(faults);
  shown.published({ version, at: began, paused_s, total_s, fault });
  if (fault !== null) {
    const back =
      view.version === null
        ? `no replica serves until a version above ${version} loads`
        : `${view.version} stays the version`;
    const message = `version ${version} was not reached, ${back}: ${fault}`;
    throw failWith({ type: 'PolicyUpdateFailed', message });
  }
  return {
    version,
    replicas: repliesOf(view, faults),
    paused_s,
    total_s,
    ...(notes.length > 0 && { notes }),
    ...(view.may_delete !== undefined && { may_delete: view.may_delete }),
  };
}

/** The answer of an update that brings no version. */
export const stateOf = (
  view: PolicyView,
  faults: Readonly<Record<string, string>> = {},
): PolicyState => ({ version: view.version, replicas: repliesOf(view, faults) });

const repliesOf = (
  view: PolicyView,
  faults: Readonly<Record<string, string>> = {},
): PolicyState['replicas'] =>
  Object.fromEntries(
    Object.entries(view.replicas).map(([url, { state, needs, fault: why }]) => {
      const said = faults[url] ?? why;
      return [
        url,
        { state, ...(needs !== undefined && { needs }), ...(said !== null && { fault: said }) },
      ];
    }),
  );

/**
 * Runs items in a number of lanes, one after the other in each. Ends when all have ended, or when no more should begin.
 */
async function inLanes<T>(
  items: readonly T[],
  {
    at_once,
    goesOn,
    run,
  }: { at_once: number; goesOn: () => boolean; run: (item: T) => Promise<void> },
): Promise<void> {
  const waiting = [...items];
  const lane = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (!goesOn()) return;
      await run(next);
    }
  };
  await Promise.all(Array.from({ length: Math.min(at_once, items.length) }, lane));
}
