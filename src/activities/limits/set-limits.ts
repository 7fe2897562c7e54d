import { isByHand, limitsOf, placeOf, SingleRollout } from '../../model/batch-request.js';
import { parsedAs } from '../../model/unknown-fields.js';
import type { Body } from '../dependencies.js';
import { requestOf } from '../request-of.js';
import { changesOf, putLimits } from './limit-facts.js';

/**
 * Puts changed limits where the attempts that play find them. For one rollout it returns what is in force, which its
 * workflow does not know while the rollout is opened.
 */
export const setLimits: Body<'setLimits'> = async ([order], { attempt, store }) => {
  const { limits } = order;
  const { run_id: run } = attempt;
  if ('batch_id' in order) {
    await putLimits({ batch_id: order.batch_id, limits, run }, store.facts);
    return null;
  }
  const { batch_id, row, repeat } = placeOf(order.rollout, attempt.workflow_id);
  const request = isByHand(order.rollout)
    ? parsedAs(SingleRollout, order.rollout)
    : await requestOf(batch_id, store);
  await putLimits({ batch_id, limits, rollout: { row, repeat }, run }, store.facts);
  const ref = { batch_id, row, repeat };
  const { limits: journalled } = await store.readTrajectory(ref);
  const changes = await changesOf(batch_id, store.facts);
  return { ...limitsOf(request), ...journalled, ...changes.of(ref) };
};
