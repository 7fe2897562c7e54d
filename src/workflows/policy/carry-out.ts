import type { Bringing, PolicyState, PublishResult } from '../../activities/contract/policy.js';
import type { Heard } from '../../model/workflow-safe/hold.js';
import type { PolicyView } from '../../model/results/answers.js';
import { mayReach, textOfFaults } from '../../model/workflow-safe/policy.js';
import { bringReplica, takeOrder } from '../activity-options.js';
import { failWith, failureOf } from '../ending.js';
import type { Order } from './orders.js';
import type { Faults, ShownPolicy } from './policy-view.js';
import { stateOf } from './policy-view.js';

export interface Serving {
  service: string;
  heartbeat_ms: number;
  shown: ShownPolicy;
  heard: () => Heard;
}

/** Changes what is wanted, brings what is to be done at once, and tells what became of it. */
export async function carryOut(order: Order, serving: Serving): Promise<unknown> {
  const { service, heartbeat_ms, shown, heard } = serving;
  const began = Date.now();
  const taken = await takeOrder({ service, ...order, heard: heard() }, heartbeat_ms);
  const { view, store_id, brings, finished, begun } = taken;
  shown.recorded(view, store_id);
  if (begun !== undefined) return begun;
  if (finished !== undefined) {
    const since = Date.now() - finished.paused_s * 1000;
    return published({ ...finished, view, began: since, notes: [] }, shown);
  }
  if (brings === undefined) {
    const slept = order.name === 'sleep' ? view.sleep : null;
    return { ...stateOf(view), ...(slept && { level: slept.level, until: slept.until }) };
  }
  const brought = await bring(brings, { ...serving, view });
  const { version, quorum, notes } = brings;
  if (version === null) return woken(brings, { ...brought, shown });
  const concluded = await takeOrder({ service, name: 'conclude', input: { quorum } }, heartbeat_ms);
  const result = { ...brought, view: concluded.view, version, began, notes };
  if (order.name === 'publish') return published(result, shown);
  // A fault is in `updates`, and replicas are restored.
  tell(result, shown);
  return stateOf(shown.record() ?? view);
}

/** Brings replicas in lanes, one after the other in each. If the quorum is out of reach, the others are not touched. */
async function bring(
  { replicas, version, quorum, at_once, mode, drain_limit }: Bringing,
  { service, heartbeat_ms, shown, view }: Omit<Serving, 'heard'> & { view: PolicyView },
): Promise<{ paused_s: number; faults: Faults }> {
  const faults: Record<string, string> = {};
  let paused_s = 0;
  const waiting = [...replicas];
  const lane = async (): Promise<void> => {
    for (let replica = waiting.shift(); replica !== undefined; replica = waiting.shift()) {
      const failed = Object.keys(faults).length;
      if (version !== null && !mayReach(view, { quorum, failed })) return;
      try {
        const input = { service, replica, version, mode, drain_limit };
        const brought = await bringReplica(input, heartbeat_ms);
        paused_s = Math.max(paused_s, brought.paused_s);
        shown.recorded(brought.view);
      } catch (error) {
        const { message } = failureOf(error);
        faults[replica] = message;
        if (version === null) shown.failed(replica, message);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(at_once, replicas.length) }, lane));
  return { paused_s, faults };
}

interface Brought {
  view: PolicyView;
  version: number;
  faults: Faults;
  paused_s: number;
  began: number;
  notes: string[];
}

/** Shows what an update came to. Returns why its version was not reached; null: it was. */
function tell(
  { view, version, faults, paused_s, began }: Brought,
  shown: ShownPolicy,
): { total_s: number; fault: string | null } {
  shown.recorded(view);
  const total_s = (Date.now() - began) / 1000;
  const fault = view.version === version ? null : textOfFaults(faults);
  shown.published({ version, at: began, paused_s, total_s, fault });
  return { total_s, fault };
}

/** The result of an update, from the record as it left it; throws if the version was not reached. */
function published(brought: Brought, shown: ShownPolicy): PublishResult {
  const { view, version, faults, paused_s, notes } = brought;
  const { total_s, fault } = tell(brought, shown);
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
    replicas: stateOf(view, faults).replicas,
    paused_s,
    total_s,
    ...(notes.length > 0 && { notes }),
    ...(view.may_delete !== undefined && { may_delete: view.may_delete }),
  };
}

/** Replicas that cannot be woken now are tried again, as any other. */
function woken(
  { replicas }: Bringing,
  { faults, shown }: { faults: Faults; shown: ShownPolicy },
): PolicyState {
  const failed = Object.keys(faults).length;
  if (failed > 0 && failed === replicas.length)
    throw failWith({
      type: 'PolicyUpdateFailed',
      message: `no engine could be woken, each is tried again: ${textOfFaults(faults)}`,
    });
  const record = shown.record();
  return record === null ? { version: null, replicas: {} } : stateOf(record, faults);
}
