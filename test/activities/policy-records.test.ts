import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPolicyRecords } from '../../src/activities/policy/policy-records.js';
import type { PolicyRecord } from '../../src/model/policy/record.js';
import { firstRecord } from '../../src/model/policy/record.js';
import type { Facts } from '../../src/trajectories/trajectory-store.js';
import { onEachStore } from '../fakes/stores.js';

const KEPT = 5;
const recordsIn = (facts: Facts) => createPolicyRecords('default', { facts, kept: KEPT });
/** The next version, whatever there is. */
const next = (before: PolicyRecord | null): PolicyRecord => ({
  ...(before ?? firstRecord(['http://a'])),
  version: (before?.version ?? 0) + 1,
});

/** Numbers of the records below 40 that a store has. */
async function numbersIn({ find }: Pick<Facts, 'find'>): Promise<number[]> {
  const there: number[] = [];
  for (let n = 0; n < 40; n++) if ((await find(['_policy', 'default'], n)) !== null) there.push(n);
  return there;
}

onEachStore((open) => {
  test('of the records as many stay as are kept, whatever an earlier release has left', async (t) => {
    const { store, elsewhere } = await open(t);
    const before = createPolicyRecords('default', { facts: store.facts, kept: 40 });
    for (let n = 0; n < 20; n++) await before.change(next);
    assert.equal((await numbersIn(store.facts)).length, 20);
    const records = recordsIn(elsewhere().facts);
    for (let n = 20; n < 23; n++) {
      assert.equal((await records.change(next))?.epoch, n);
      assert.deepEqual(
        await numbersIn(store.facts),
        Array.from({ length: KEPT + 1 }, (_, k) => n - KEPT + k),
      );
    }
  });

  test('a reader whose record is forgotten finds the current one', async (t) => {
    const { store, elsewhere } = await open(t);
    const [records, reader] = [recordsIn(store.facts), recordsIn(elsewhere().facts)];
    await records.change(next);
    assert.equal((await reader.latest())?.version, 1);
    for (let n = 1; n < 20; n++) await records.change(next);
    assert.equal((await reader.latest())?.version, 20);
    assert.equal(await reader.at(3), null);
  });

  test('a writer that was held up until its number is forgotten changes the current record', async (t) => {
    const { store, elsewhere } = await open(t);
    for (const already of [0, 1]) {
      const service = `held-${already}`;
      const other = createPolicyRecords(service, { facts: elsewhere().facts, kept: KEPT });
      if (already > 0) await other.change(next);
      let epoch = -1;
      const facts: Facts = {
        ...store.facts,
        put: async (fact) => {
          // While it is held, others make so many changes that its number is free again.
          while (epoch < 12) epoch = (await other.change(next))?.epoch ?? 12;
          return await store.facts.put(fact);
        },
      };
      const held = createPolicyRecords(service, { facts, kept: KEPT });
      const changed = await held.change(next);
      assert.deepEqual([changed?.epoch, changed?.version], [13, 14]);
      assert.deepEqual(await other.latest(), changed);
      assert.equal(await other.at(already), null);
    }
  });

  test('a service may have any name, and no two have one record', async (t) => {
    const { store } = await open(t);
    // The last two begin with the same digits.
    const names = ['default', 'a.b', 'a:002eb', '.hidden', '-a', '../..', '默认', 'ǵb', 'Ὓ'];
    const recordsOf = (service: string) => createPolicyRecords(service, { facts: store.facts });
    for (const name of names)
      assert.notEqual(await recordsOf(name).change(() => firstRecord([`http://${name}`])), null);
    for (const name of names) {
      const { epoch, replicas = {} } = (await recordsOf(name).latest()) ?? {};
      assert.deepEqual([epoch, Object.keys(replicas)], [0, [`http://${name}`]]);
    }
  });
});
