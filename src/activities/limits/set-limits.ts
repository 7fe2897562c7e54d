import { isByHand, limitsOf, placeOf } from '../../model/batch-request.js';
import type { Limits } from '../../model/workflow-safe/limits.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { requestOf } from '../request-of.js';
import { parseSingle } from '../start/plan-single.js';
import { changesOf, putLimits } from './limit-facts.js';

/**
 * Puts changed limits where the attempts that play find them. For one rollout it returns what is in force, which its
 * workflow does not know while the rollout is opened.
 */
export function createSetLimits({
  attempt: run,
  store,
}: Pick<Dependencies, 'attempt' | 'store'>): Activities['setLimits'] {
  return (order) =>
    run(async ({ workflow_id, run_id }): Promise<Limits | null> => {
      const { limits } = order;
      if ('batch_id' in order) {
        await putLimits({ batch_id: order.batch_id, limits, run: run_id }, store.facts);
        return null;
      }
      const { batch_id, row, repeat } = placeOf(order.rollout, workflow_id);
      const request = isByHand(order.rollout)
        ? parseSingle(order.rollout)
        : await requestOf(batch_id, store);
      await putLimits({ batch_id, limits, rollout: { row, repeat }, run: run_id }, store.facts);
      const ref = { batch_id, row, repeat };
      const { limits: journalled } = await store.readTrajectory(ref);
      const changes = await changesOf(batch_id, store.facts);
      return { ...limitsOf(request), ...journalled, ...changes.of(ref) };
    });
}
