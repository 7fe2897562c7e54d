import type { TestContext } from 'node:test';
import { Publish } from '../../src/model/policy/orders.js';
import type { ReplicaChange, WeightFiles } from '../../src/model/policy/record.js';
import { fieldsOf, firstRecord, withReplica } from '../../src/model/policy/record.js';
import { withTarget } from '../../src/model/policy/target.js';
import { activityBench } from './activity-bench.js';
import { controlledEngine, PROBE } from './controlled-engine.js';

const URL = 'http://a/v1';
const OTHER = 'http://b/v1';
export const ORDER = { service: 'default', replica: URL, version: 1, mode: 'keep' as const };

/** An engine in a fleet of two whose target is version 1; nothing has been brought to any yet. */
export async function updating(
  t: TestContext,
  { files = null, ...publish }: Record<string, unknown> & { files?: WeightFiles | null } = {},
) {
  const engine = controlledEngine(URL);
  const bench = await activityBench(t, { controls: [engine, controlledEngine(OTHER)] });
  const { records } = bench.dependencies.policy('default')!;
  const weights = { kind: 'checkpoint', path: '/weights-1' };
  const target = Publish.parse({ version: 1, weights, probe: PROBE, ...publish });
  await records.change(() => withTarget(firstRecord([URL, OTHER]), { ...target, files }));
  const entry = async () => fieldsOf((await records.latest())!.replicas[URL]!);
  const set = (change: ReplicaChange) =>
    records.change((now) => withReplica(now!, { replica: URL, ...change }));
  return { engine, bench, records, entry, set };
}
