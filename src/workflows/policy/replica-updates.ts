import { setHandler } from '@temporalio/workflow';
import type { PolicyState, ReplicasUpdate } from '../../activities/contract/policy.js';
import { nextDrained } from '../../model/workflow-safe/policy.js';
import { undecodableProblem } from '../../model/workflow-safe/undecodable.js';
import { changeReplicas } from '../activity-options.js';
import { failWith, failureOf, refuse } from '../ending.js';
import { replicasUpdates } from '../steering/messages.js';
import { stateOf } from './bring.js';
import type { ShownPolicy } from './policy-view.js';

/**
 * Updates `engines`, `join`, `drain` and `leave`. They change the record alone, so each is answered at once, also while
 * weights are brought; what follows from it is done afterwards.
 */
export interface ReplicaChanges {
  /** Whether replicas have to be looked at again: some have joined, left, or drained. */
  isDue(now: number): boolean;
  /** They are looked at. */
  seen(): void;
  /** Until a replica has drained; null: none drains. */
  leftMs(now: number): number | null;
  /** No update is being answered. */
  isIdle(): boolean;
}

/** Activities have another clock. */
const MARGIN_MS = 1000;

export function handleReplicaUpdates(service: string, shown: ShownPolicy): ReplicaChanges {
  let answering = 0;
  let isNews = false;
  const answer = async (name: ReplicasUpdate, input: unknown): Promise<PolicyState> => {
    answering += 1;
    try {
      const view = await changeReplicas({ service, name, input });
      shown.recorded(view);
      isNews = true;
      return stateOf(view);
    } catch (error) {
      throw failWith(failureOf(error));
    } finally {
      answering -= 1;
    }
  };
  for (const name of ['engines', 'join', 'drain', 'leave'] as const)
    setHandler(replicasUpdates[name], (input) => answer(name, input), {
      validator: (input) => {
        refuse(undecodableProblem(input));
      },
    });
  const drainedAt = (): number | null => {
    const record = shown.record();
    const at = record === null ? null : nextDrained(record);
    return at === null ? null : at + MARGIN_MS;
  };
  return {
    isDue: (now) => isNews || now >= (drainedAt() ?? Infinity),
    seen: () => {
      isNews = false;
    },
    leftMs: (now) => {
      const at = drainedAt();
      return at === null ? null : Math.max(0, at - now);
    },
    isIdle: () => answering === 0,
  };
}
