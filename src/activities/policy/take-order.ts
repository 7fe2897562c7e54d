import { viewOf } from '../../model/policy/view.js';
import type { PolicyActivities, PolicyOrder } from '../contract/policy.js';
import type { Dependencies } from '../dependencies.js';
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

export function createTakeOrder(dependencies: Dependencies): PolicyActivities['takeOrder'] {
  return ({ service, name, input, nonce = '', why = null, heard }) =>
    dependencies.attempt(async ({ signal }) => {
      const policy = policyOf(service, dependencies);
      const ordering = { service, policy, dependencies, signal, nonce, why, heard };
      const { record, ...taken } = await ORDERS[name](input, ordering);
      return { ...taken, view: viewOf(record) };
    });
}
