import type { TestContext } from 'node:test';
import type {
  BeginAnswer,
  BringReplica,
  PolicyOrder,
} from '../../src/activities/contract/policy.js';
import { fieldsOf, firstRecord, withReplica } from '../../src/model/policy/record.js';
import { concluded, withTarget } from '../../src/model/policy/target.js';
import { activityBench } from './activity-bench.js';
import type { ControlledEngine } from './controlled-engine.js';
import { controlledEngine } from './controlled-engine.js';

export const A = 'http://a/v1';
export const B = 'http://b/v1';
export const HOLDER = { name: 'grpo', incarnation: 'one' };

/** Two engines that serve version 17, of which there are files if `path` names some. */
export async function fleet(t: TestContext, { path = null }: { path?: string | null } = {}) {
  const engines: [ControlledEngine, ControlledEngine] = [controlledEngine(A), controlledEngine(B)];
  const bench = await activityBench(t, { controls: engines });
  const { records } = bench.dependencies.policy('default')!;
  const weights =
    path === null ? { kind: 'transfer' as const } : { kind: 'checkpoint' as const, path };
  const first = firstRecord([A, B]);
  const target = withTarget(first, {
    version: 17,
    weights,
    cache: 'keep',
    probe: null,
    pause_limit: '10m',
  });
  await records.change(() =>
    [A, B].reduce(
      (next, replica) => withReplica(next, { replica, state: 'current', version: 17 }),
      concluded(target),
    ),
  );
  for (const engine of engines) await engine.label('17', NO_BOUND);
  for (const engine of engines) engine.calls.length = 0;
  let nonces = 0;
  const order = (name: PolicyOrder['name'], input: object) =>
    bench.result('takeOrder', { service: 'default', name, input });
  const beginning = (given: object): PolicyOrder => ({
    service: 'default',
    name: 'begin',
    nonce: `n${(nonces += 1)}`,
    input: { holder: HOLDER, probe: null, ...given },
  });
  const begin = async (given: object = {}): Promise<BeginAnswer> =>
    (await bench.result('takeOrder', beginning(given))).begun!;
  const refusal = async (given: object): Promise<string> =>
    (await bench.failure('takeOrder', beginning(given))).message;
  const finish = async (ticket: string, given: object = {}) =>
    (await order('finish', { ticket, sent: [0, 1], ...given })).finished!;
  const refusedFinish = async (ticket: string): Promise<string> => {
    const input = { ticket, sent: [0, 1] };
    return (await bench.failure('takeOrder', { service: 'default', name: 'finish', input }))
      .message;
  };
  const abandon = (ticket: string, touched: number[]) => order('abandon', { ticket, touched });
  /** As the workflow restores it. */
  const restore = (replica: string): BringReplica => ({
    service: 'default',
    replica,
    version: null,
    mode: 'abort',
  });
  const entry = async (url: string) => fieldsOf((await records.latest())!.replicas[url]!);
  return {
    engines,
    bench,
    records,
    order,
    begin,
    refusal,
    finish,
    refusedFinish,
    abandon,
    restore,
    entry,
  };
}

export const NO_BOUND = { within_ms: 1000, signal: new AbortController().signal };
