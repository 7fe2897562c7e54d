import type { TestContext } from 'node:test';
import type { BeginAnswer } from '../../src/activities/contract/policy.js';
import type { ReplicaEntry } from '../../src/model/policy/record.js';
import { firstRecord, withTarget, concluded, withReplica } from '../../src/model/policy/record.js';
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
  const begin = async (given: object = {}): Promise<BeginAnswer> => {
    const input = {
      service: 'default',
      nonce: `n${(nonces += 1)}`,
      begin: { holder: HOLDER, probe: null, ...given },
    };
    return (await bench.result('beginTransfer', input)).answer;
  };
  const refusal = async (given: object): Promise<string> => {
    const input = {
      service: 'default',
      nonce: `n${(nonces += 1)}`,
      begin: { holder: HOLDER, probe: null, ...given },
    };
    return (await bench.failure('beginTransfer', input)).message;
  };
  const finish = (ticket: string, given: object = {}) =>
    bench.result('finishTransfer', {
      service: 'default',
      finish: { ticket, sent: [0, 1], ...given },
    });
  const refusedFinish = async (ticket: string, given: object = {}): Promise<string> =>
    (
      await bench.failure('finishTransfer', {
        service: 'default',
        finish: { ticket, sent: [0, 1], ...given },
      })
    ).message;
  const abandon = (ticket: string, touched: number[]) =>
    bench.result('abandonTransfer', {
      service: 'default',
      why: 'its holder gave it up',
      abandon: { ticket, touched },
    });
  const entry = async (url: string): Promise<ReplicaEntry> =>
    (await records.latest())!.replicas[url]!;
  return { engines, bench, records, begin, refusal, finish, refusedFinish, abandon, entry };
}

export const NO_BOUND = { within_ms: 1000, signal: new AbortController().signal };
