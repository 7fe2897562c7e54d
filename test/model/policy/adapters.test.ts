import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  adapterNamed,
  adapterOf,
  baseOf,
  deletablePaths,
  isAsSent,
  isOwnAdapter,
  withAdapter,
  withKept,
} from '../../../src/model/policy/adapters.js';
import { Publish } from '../../../src/model/policy/orders.js';
import type { PolicyRecord } from '../../../src/model/policy/record.js';
import { firstRecord, withReplica } from '../../../src/model/policy/record.js';
import { concluded, withTarget } from '../../../src/model/policy/target.js';
import { canRestore, toRestore } from '../../../src/model/workflow-safe/policy.js';
import { viewOf } from '../../../src/model/policy/view.js';

const A = 'http://a/v1';
const B = 'http://b/v1';
const targetOf = (version: number) =>
  Publish.parse({ version, weights: { kind: 'lora', path: `/adapter-${version}` } });

/** Weights 1, and then these adapters on these replicas. */
function played(versions: readonly number[], on: readonly string[] = [A, B]): PolicyRecord {
  const based = [A, B].reduce(
    (record, replica) => withReplica(record, { replica, state: 'current', version: 1 }),
    firstRecord([A, B]),
  );
  const published = Publish.parse({ version: 1, weights: { kind: 'checkpoint', path: '/1' } });
  return versions.reduce(
    (record, version) => {
      const target = targetOf(version);
      const lora = adapterNamed(record, { service: 'default', target })!;
      const kept = withKept(record, { version, path: target.weights.path });
      const aimed = withTarget(kept, { ...target, lora });
      const brought = on.reduce(
        (next, replica) =>
          withAdapter(next, { replica, adapter: { version, name: lora.name }, ...lora }),
        aimed,
      );
      return concluded(brought);
    },
    concluded(withTarget(based, published)),
  );
}
const entryOf = (record: PolicyRecord, url = A) => record.replicas[url]!;
const sentUnder = (record: PolicyRecord) => ({
  replica: A,
  epoch: entryOf(record).epoch,
  adapter: adapterOf(entryOf(record)),
});

describe('an adapter', () => {
  test('is named by service, version and content, and is for the weights below the version before', () => {
    const record = played([2, 3]);
    const lora = record.weights[3]?.lora;
    assert.equal(lora?.base, 1);
    assert.match(lora.name, /^default\.3\.[0-9a-f]{8}$/);
    assert.notEqual(record.weights[1], undefined);
    assert.equal(isOwnAdapter(lora.name, 'default'), true);
    for (const name of [
      'default',
      'default.3',
      'default.3.xyz',
      'other.3.0123abcd',
      'default.x.0123abcd',
    ])
      assert.equal(isOwnAdapter(name, 'default'), false, name);
    const nothing = adapterNamed(firstRecord([A]), { service: 'default', target: targetOf(1) });
    assert.equal(nothing?.base, null);
  });

  test('changes no epoch: streams of the last two versions go on, those of an older one do not', () => {
    const [weights, first, second] = [played([]), played([2]), played([2, 3])];
    assert.equal(entryOf(second).epoch, entryOf(weights).epoch);
    assert.deepEqual([baseOf(entryOf(second)), entryOf(second).version], [1, 3]);
    assert.equal(isAsSent(first, sentUnder(weights)), true);
    assert.equal(isAsSent(second, sentUnder(weights)), false);
    assert.equal(isAsSent(second, sentUnder(first)), true);
    assert.equal(isAsSent(played([2, 3, 4]), sentUnder(first)), false);
  });

  test('ends with other weights, and not with a label that is given back', () => {
    const record = played([2]);
    const back = withReplica(record, { replica: A, state: 'current' });
    assert.equal(adapterOf(entryOf(back))?.version, 2);
    assert.equal(isAsSent(back, sentUnder(record)), false);
    const other = withReplica(record, { replica: A, state: 'current', version: 5 });
    assert.deepEqual([adapterOf(entryOf(other)), baseOf(entryOf(other))], [null, 5]);
  });

  test('may be deleted one version after every replica has unloaded it', () => {
    assert.deepEqual(deletablePaths(played([2, 3, 4])), []);
    assert.deepEqual(deletablePaths(played([2, 3, 4, 5])), ['/adapter-2']);
    assert.deepEqual(deletablePaths(played([2, 3, 4, 5, 6])), ['/adapter-3']);
    assert.deepEqual(
      deletablePaths(withReplica(played([2, 3, 4, 5]), { replica: B, state: 'away' })),
      ['/adapter-2'],
    );
  });

  test('is brought to a replica that lacks it, whoever has the weights below', () => {
    const view = viewOf(played([2], [A]));
    assert.deepEqual(toRestore(view), [B]);
    assert.equal(canRestore(view), true);
    const sent = { ...view, weights: { ...view.weights, '1': { kind: 'transfer' } } };
    assert.equal(canRestore(sent), false);
    assert.deepEqual(toRestore(sent), [B]);
    const away = withReplica(played([2]), { replica: A, state: 'unknown' });
    assert.deepEqual(toRestore({ ...viewOf(away), weights: sent.weights }), []);
  });
});
