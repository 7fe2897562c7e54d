import { viewOf } from '../../model/policy/view.js';
import type { PolicyOrder } from '../contract/policy.js';
import type { Body } from '../dependencies.js';
import { begin } from './begin.js';
import { abandon, attach, finish } from './end-transfer.js';
import type { Order } from './policy-service.js';
import { policyOf } from './policy-service.js';
import { conclude, publish } from './publish.js';
import { drain, engines, join, leave, release, survey } from './replicas.js';
import { sleep, wake } from './sleep.js';

const ORDERS: Record<PolicyOrder['name'], Order> = {
  ...{ publish, conclude, begin, finish, abandon, attach, sleep, wake },
  ...{ release, survey, engines, join, drain, leave },
};

export const takeOrder: Body<'takeOrder'> = async ([order], { attempt, ...dependencies }) => {
  const { name, input, nonce = '', why = null, ...given } = order;
  const policy = policyOf(order.service, dependencies);
  const { signal } = attempt;
  const ordering = { ...given, policy, dependencies, signal, nonce, why };
  const { record, ...taken } = await ORDERS[name](input, ordering);
  return { ...taken, view: viewOf(record), store_id: await dependencies.storeId() };
};
